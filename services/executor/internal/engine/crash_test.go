package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/powercut"
	"github.com/garrison-fleet/garrison/services/executor/internal/tally"
)

// How often each operation is interrupted; make crash says more. Without them it is a
// few times, at points and instants that are others in each run.
const (
	killsVariable = "GARRISON_KILLS"
	cutsVariable  = "GARRISON_CUTS"
	// withinVariable bounds each test's time, as in 20m; then it does as many as it can.
	withinVariable = "GARRISON_WITHIN"
	// firstVariable says that the first bad one is enough, as for a seeded bug.
	firstVariable = "GARRISON_FIRST_BAD"
)

// diskSize is enough for an agent's versions and the room that a change reserves.
const diskSize = 128 << 20

// operation is one change in an agent's life.
type operation struct {
	name, agent   string
	version, what string // what is brought, or nothing for a removal
	how           []func(*imagev1.Manifest)
	ends          taskv1.State
	socket        bool // the version before, the one after, or both are handed a socket
}

// repairing is the operation before which a file of the image is damaged.
const repairing = "repair"

// operations are a life: each starts from where the one before it ends.
var operations = []operation{
	{"install", "cn-agent", "1.0.0", "ready", nil, good, false},
	{"upgrade, restart", "cn-agent", "2.0.0", "ready", nil, good, false},
	{"upgrade, overlap", "cn-agent", "3.0.0", "ready", beside, good, false},
	{"undo, restart", "cn-agent", "4.0.0", "crash", nil, undone, false},
	{"undo, overlap", "cn-agent", "5.0.0", "crash", beside, undone, false},
	{repairing, "cn-agent", "3.0.0", "ready", beside, good, false},
	{"configure, first", "cn-agent", "6.0.0+info", "", told, good, false},
	{"configure, signal", "cn-agent", "6.0.0+debug", "", told, good, false},
	{"undo, signal", "cn-agent", "6.0.0+bad", "", told, undone, false},
	{"upgrade, configured", "cn-agent", "7.0.0+info", "", anew, good, false},
	{"configure, restart", "cn-agent", "7.0.0+debug", "", anew, good, false},
	{"undo, configured", "cn-agent", "7.0.0+bad", "", anew, undone, false},
	{"undo to configured", "cn-agent", "8.0.0", "crash", beside, undone, false},
	{"remove", "cn-agent", "", "", nil, good, false},
	{"undo of an install", "cn-agent", "0.9.0", "crash", nil, undone, false},
	{"undo, rehearsal", "cn-agent", "0.9.1+wrong", "", anew, undone, false},
	{"install, socket", "cn-agent", "1.1.0", "serve", beside, good, true},
	{"upgrade, socket", "cn-agent", "2.1.0", "serve", beside, good, true},
	{"upgrade, waiting", "cn-agent", "3.1.0", "serve", nil, good, true},
	{"undo, socket", "cn-agent", "4.1.0", "crash", beside, undone, true},
	{"remove, socket", "cn-agent", "", "", nil, good, true},
	{"install files", "gz-tools", "1.0.0", "", onlyFiles, good, false},
	{"upgrade files", "gz-tools", "2.0.0", "", onlyFiles, good, false},
	{"remove files", "gz-tools", "", "", nil, good, false},
}

const (
	good   = taskv1.State_STATE_SUCCEEDED
	undone = taskv1.State_STATE_UNDONE
)

var (
	beside    = []func(*imagev1.Manifest){overlap}
	onlyFiles = []func(*imagev1.Manifest){kind(agentv1.Kind_KIND_FILES)}
)

// after says what is there when the operation has ended, if had was there before.
func (o operation) after(had string) string {
	if o.ends == undone {
		return had
	}
	return o.version
}

// usually says how often it is killed when nobody says it: half a minute is enough for every day.
func (o operation) usually() int {
	if o.agent != "cn-agent" || o.socket || hasLevel(o.version) {
		return 3
	}
	return 8
}

func TestAnExecutorKilledAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	r := newRound(t, "SIGKILL", killsVariable, operations)
	r.run(t, 2*runtime.GOMAXPROCS(0), func(t *testing.T) *life { return newLife(t, operations) })
}

func TestAMachineThatLosesPowerAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	r := newRound(t, "power cut", cutsVariable, operations)
	r.skipWithoutDisks(t)
	r.run(t, 2, func(t *testing.T) *life { return newLife(t, operations).on(powercut.New(t, diskSize)) })
}

func (r *round) skipWithoutDisks(t *testing.T) {
	t.Helper()
	if why := powercut.Unable(t); why != "" {
		fmt.Printf("\n%s: SKIPPED: %s\n", r.title, why)
		t.Skip(why)
	}
	if r.kills == 0 {
		r.kills = 1
	}
}

// round is what a test does: so many interruptions of each operation.
type round struct {
	title    string
	of       []operation
	kills    int       // of each operation; 0 means as usual
	until    time.Time // no more are begun after it; zero means as many as kills says
	firstBad bool
	tally    *tally.Tally

	mu     sync.Mutex
	next   int
	dry    map[string]rehearsal // by operation
	badSet bool
}

func newRound(t *testing.T, title, variable string, of []operation) *round {
	t.Helper()
	r := &round{title: title, of: of, firstBad: os.Getenv(firstVariable) != "", dry: map[string]rehearsal{}}
	var names []string
	for _, o := range of {
		names = append(names, o.name)
	}
	r.tally = tally.Begin(title, names...)
	if v := os.Getenv(variable); v != "" {
		var err error
		if r.kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	if v := os.Getenv(withinVariable); v != "" {
		within, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("%s: %v", withinVariable, err)
		}
		r.until = time.Now().Add(within)
	}
	return r
}

func (r *round) run(t *testing.T, lives int, begin func(*testing.T) *life) {
	rehearsed := begin(t)
	for _, o := range r.of {
		r.dry[o.name] = rehearsed.rehearse(o)
	}
	began := time.Now()
	t.Run("lives", func(t *testing.T) {
		for n := range lives {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				r.live(t, begin)
			})
		}
	})
	if bad, err := r.tally.Print(os.Stdout, time.Since(began)); bad > 0 || err != nil {
		t.Errorf("%d of the interruptions left something bad (%v)", bad, err)
	}
}

// live goes through one life after another. A life that turned bad is given up for a new one.
func (r *round) live(t *testing.T, begin func(*testing.T) *life) {
	l := begin(t)
	for {
		turn := r.turn()
		any := false
		for _, o := range r.of {
			k, ok := r.kill(o, turn)
			any = any || ok
			res := l.do(o, k)
			if ok || len(res.bad) > 0 {
				r.tally.Add(o.name, res.step, res.outcome())
			}
			if len(res.bad) > 0 {
				t.Errorf("%s, %s, in %s: %v", o.name, k, res.step, res.bad)
				r.bad()
				l = begin(t)
				break
			}
		}
		if !any || r.enough() {
			return
		}
	}
}

func (r *round) turn() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	return r.next - 1
}

func (r *round) bad() {
	r.mu.Lock()
	r.badSet = true
	r.mu.Unlock()
}

func (r *round) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.badSet && r.firstBad
}

// kill chooses how an operation is interrupted: at each point in turn, and then at
// random instants. When there are fewer turns than points, they are chosen at random.
func (r *round) kill(o operation, turn int) (kill, bool) {
	dry := r.dry[o.name]
	most := r.kills
	if most == 0 {
		most = o.usually()
	}
	switch {
	case turn >= most, !r.until.IsZero() && time.Now().After(r.until):
		return kill{}, false
	case most < len(dry.points) && rand.IntN(3) > 0:
		return kill{point: dry.points[rand.IntN(len(dry.points))]}, true
	case most >= len(dry.points) && turn < len(dry.points):
		return kill{point: dry.points[turn]}, true
	}
	return kill{after: time.Duration(rand.Int64N(int64(dry.span))), again: rand.IntN(3) == 0}, true
}
