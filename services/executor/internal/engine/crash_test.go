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
)

// How often each operation is interrupted; make crash says more. Without them it is a
// few times, at points and instants that are others in each run.
const (
	killsVariable = "GARRISON_KILLS"
	cutsVariable  = "GARRISON_CUTS"
	// firstVariable says that the first bad one is enough, as for a seeded bug.
	firstVariable = "GARRISON_FIRST_BAD"
)

// operation is one change in an agent's life.
type operation struct {
	name, agent   string
	version, what string // what is brought, or nothing for a removal
	how           []func(*imagev1.Manifest)
	ends          taskv1.State
}

// operations are a life: each starts from where the one before it ends.
var operations = []operation{
	{"install", "cn-agent", "1.0.0", "ready", nil, taskv1.State_STATE_SUCCEEDED},
	{"upgrade, restart", "cn-agent", "2.0.0", "ready", nil, taskv1.State_STATE_SUCCEEDED},
	{"upgrade, overlap", "cn-agent", "3.0.0", "ready", []func(*imagev1.Manifest){overlap}, taskv1.State_STATE_SUCCEEDED},
	{"undo, restart", "cn-agent", "4.0.0", "crash", nil, taskv1.State_STATE_UNDONE},
	{"undo, overlap", "cn-agent", "5.0.0", "crash", []func(*imagev1.Manifest){overlap}, taskv1.State_STATE_UNDONE},
	{"remove", "cn-agent", "", "", nil, taskv1.State_STATE_SUCCEEDED},
	{"undo of an install", "cn-agent", "0.9.0", "crash", nil, taskv1.State_STATE_UNDONE},
	{"install files", "gz-tools", "1.0.0", "", []func(*imagev1.Manifest){kind(agentv1.Kind_KIND_FILES)}, taskv1.State_STATE_SUCCEEDED},
	{"upgrade files", "gz-tools", "2.0.0", "", []func(*imagev1.Manifest){kind(agentv1.Kind_KIND_FILES)}, taskv1.State_STATE_SUCCEEDED},
	{"remove files", "gz-tools", "", "", nil, taskv1.State_STATE_SUCCEEDED},
}

// after says what is there when the operation has ended, if had was there before.
func (o operation) after(had string) string {
	if o.ends == taskv1.State_STATE_UNDONE {
		return had
	}
	return o.version
}

// usually says how often it is killed when nobody says it: half a minute is enough for every day.
func (o operation) usually() int {
	if o.agent != "cn-agent" {
		return 3
	}
	return 8
}

func TestAnExecutorKilledAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	r := newRound(t, "SIGKILL", killsVariable)
	r.run(t, 2*runtime.GOMAXPROCS(0), func(t *testing.T) *life { return newLife(t, nil) })
}

func TestAMachineThatLosesPowerAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	r := newRound(t, "power cut", cutsVariable)
	if why := noDisks(t); why != "" {
		fmt.Printf("\n%s: SKIPPED: %s\n", r.title, why)
		t.Skip(why)
	}
	if r.kills == 0 {
		r.kills = 1
	}
	r.run(t, 2, func(t *testing.T) *life { return newLife(t, newDisk(t)) })
}

// round is what a test does: so many interruptions of each operation.
type round struct {
	title    string
	kills    int // of each operation; 0 means as usual
	firstBad bool
	table    table

	mu     sync.Mutex
	next   int
	dry    map[string]rehearsal // by operation
	badSet bool
}

func newRound(t *testing.T, title, variable string) *round {
	t.Helper()
	r := &round{title: title, firstBad: os.Getenv(firstVariable) != "", dry: map[string]rehearsal{}}
	if v := os.Getenv(variable); v != "" {
		var err error
		if r.kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	return r
}

func (r *round) run(t *testing.T, lives int, begin func(*testing.T) *life) {
	rehearsed := begin(t)
	for _, o := range operations {
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
	if bad := r.table.print(os.Stdout, r.title, time.Since(began)); bad > 0 {
		t.Errorf("%d of the interruptions left something bad", bad)
	}
}

// live goes through one life after another. A life that turned bad is given up for a new one.
func (r *round) live(t *testing.T, begin func(*testing.T) *life) {
	l := begin(t)
	for {
		turn := r.turn()
		any := false
		for _, o := range operations {
			k, ok := r.kill(o, turn)
			any = any || ok
			res := l.do(o, k)
			if ok || len(res.bad) > 0 {
				r.table.add(o, res)
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
	case turn >= most:
		return kill{}, false
	case most < len(dry.points) && rand.IntN(3) > 0:
		return kill{point: dry.points[rand.IntN(len(dry.points))]}, true
	case most >= len(dry.points) && turn < len(dry.points):
		return kill{point: dry.points[turn]}, true
	}
	return kill{after: time.Duration(rand.Int64N(int64(dry.span))), again: rand.IntN(3) == 0}, true
}
