package attack

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

var (
	full       = flag.Bool("full", false, "long floods with figures, and a line printed for each attack")
	deployment = flag.String("deployment", "one", "one (garrisond), apart, or both")
)

// attack is an entry of the book. It has run, flood or both: run comes after the flood.
type attack struct {
	name    string                              // what the attacker wants
	as      string                              // whose credentials it has
	tried   string                              // how it goes about it
	stopped string                              // what stops it
	run     func(t *trial) (effect string)      // fails t when the attack succeeds
	flood   func(ctx context.Context, t *trial) // sends until ctx is done
}

// trial is one attack under way.
type trial struct {
	*testing.T
	*world
	attacker *server // enrolled for this attack; no executor runs there
}

var book []attack

func add(a attack) { book = append(book, a) }

// bin is the directory of the programs under test.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	code := 1
	dir, remove, err := rig.Programs(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
	bin = dir
	defer func() { remove(); os.Exit(code) }()
	code = m.Run()
}

// No attack in the book succeeds, and none costs another server anything.
func TestTheBook(t *testing.T) {
	modes := map[string][]bool{"one": {false}, "apart": {true}, "both": {false, true}}[*deployment]
	if modes == nil {
		t.Fatalf("-deployment %s: want one, apart or both", *deployment)
	}
	for _, apart := range modes {
		t.Run(map[bool]string{false: "garrisond", true: "apart"}[apart], func(t *testing.T) {
			for n := range fleets() {
				t.Run(fmt.Sprint("fleet-", n), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, apart)
					for i := n; i < len(book); i += fleets() {
						t.Run(strings.ReplaceAll(book[i].name, " ", "-"), func(t *testing.T) { w.try(t, book[i]) })
					}
				})
			}
		})
	}
}

// fleets is how many fleets share the book, side by side: one when figures are taken.
func fleets() int {
	if *full {
		return 1
	}
	return 3
}

// try runs one attack and prints its line.
func (w *world) try(t *testing.T, a attack) {
	tr := &trial{T: t, world: w, attacker: w.enrol(t)}
	var effect []string
	if a.flood != nil {
		effect = append(effect, tr.measure(a.flood))
	}
	if a.run != nil {
		effect = append(effect, a.run(tr))
	}
	line := fmt.Sprintf("%s (%s) | tried: %s | stopped by: %s | effect: %s", a.name, a.as, a.tried, a.stopped,
		strings.Join(effect, "; "))
	if t.Failed() {
		line = "SUCCEEDED " + line
	}
	t.Log(line)
	if *full && !testing.Verbose() {
		fmt.Println(line)
	}
}

// floodFor is how long a flood lasts, and how long upgrades are measured without it.
func floodFor() time.Duration {
	if *full {
		return 8 * time.Second
	}
	return 1500 * time.Millisecond
}
