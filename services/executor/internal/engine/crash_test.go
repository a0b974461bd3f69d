package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/tally"
)

// The variables that make crash sets. Without them each operation is interrupted a few times, at other points and
// instants in each run.
const (
	killsVariable = "GARRISON_KILLS" // how often each operation is interrupted
	cutsVariable  = "GARRISON_CUTS"
	// withinVariable bounds each test's time, as in 20m, instead of the number of interruptions.
	withinVariable = "GARRISON_WITHIN"
	// firstVariable ends a test at the first bad outcome, as for a seeded bug.
	firstVariable = "GARRISON_FIRST_BAD"
)

// diskSize is enough for an agent's versions and the space that a change reserves.
const diskSize = 128 << 20

// operation is one change in an agent's life.
type operation struct {
	name, agent   string
	version, what string // of the image; empty for a removal
	how           []func(*imagev1.Manifest)
	ends          taskv1.State
	socket        bool // the version before, the one after, or both declare a socket
}

// repairing is the operation before which a file of the image is damaged.
const repairing = "repair"

// operations are a life: each starts from the end of the one before it.
var operations = []operation{
	{"install", "cn-agent", "1.0.0", "ready", nil, good, false},
	{"upgrade, restart", "cn-agent", "2.0.0", "ready", nil, good, false},
	{"upgrade, overlap", "cn-agent", "3.0.0", "ready", beside, good, false},
	{"undo, restart", "cn-agent", "4.0.0", "crash", nil, undone, false},
	{"undo, overlap", "cn-agent", "5.0.0", "crash", beside, undone, false},
	{repairing, "cn-agent", "3.0.0", "ready", beside, good, false},
	{"configure, first", "cn-agent", "6.0.0+info", "", signalled, good, false},
	{"configure, signal", "cn-agent", "6.0.0+debug", "", signalled, good, false},
	{"undo, signal", "cn-agent", "6.0.0+bad", "", signalled, undone, false},
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

// after returns the version that is installed after the operation, had being the one before; empty for none.
func (o operation) after(had string) string {
	if o.ends == undone {
		return had
	}
	return o.version
}

// usually returns how often it is interrupted by default. The points and instants are others in each run; make crash
// tries a thousand of them.
func (o operation) usually() int {
	if o.agent != "cn-agent" || o.socket || hasLevel(o.version) {
		return 2
	}
	return 4
}

func TestAnExecutorKilledAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	t.Parallel()
	r := newRound(t, "SIGKILL", killsVariable, operations)
	r.run(t, 2*runtime.GOMAXPROCS(0), func(t *testing.T) *life { return newLife(t, operations) })
}

func TestAMachineThatLosesPowerAtAnyInstantLeavesOneWholeVersionAndATrueJournal(t *testing.T) {
	t.Parallel()
	r := newRound(t, "power cut", cutsVariable, operations)
	r.skipWithoutDisks(t)
	r.run(t, 2, func(t *testing.T) *life { return newLife(t, operations).on(powercut.New(t, diskSize)) })
}

// newStarted is the point behind the start of a new version.
const newStarted = "new started"

func TestAMachineThatGoesDownAtEachStartOfAVersionHasTheOneBefore(t *testing.T) {
	t.Parallel()
	r := newRound(t, "each start", killsVariable, operations)
	r.each, r.kills = true, max(r.kills, 1)
	r.run(t, runtime.GOMAXPROCS(0), func(t *testing.T) *life { return newLife(t, operations) })
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

// round is the plan of a test: how often each operation is interrupted, and the outcomes.
type round struct {
	title    string
	of       []operation
	kills    int       // of each operation; 0 means the default
	until    time.Time // ends the interruptions; zero means that kills does
	firstBad bool
	each     bool // a new version takes its machine down at each start
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

// run interrupts the operations in as many lives side by side, and at least one.
func (r *round) run(t *testing.T, lives int, begin func(*testing.T) *life) {
	rehearsed := begin(t)
	for _, o := range r.of {
		r.dry[o.name] = rehearsed.rehearse(o)
	}
	began := time.Now()
	t.Run("lives", func(t *testing.T) {
		for n := range min(lives, r.turns()) {
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

// live goes through one life after another. A life that turned bad is replaced by a new one.
func (r *round) live(t *testing.T, begin func(*testing.T) *life) {
	var l *life
	for {
		lap := r.lap(r.turn())
		if len(lap) == 0 {
			return
		}
		for _, p := range lap {
			if r.over() {
				return
			}
			if l == nil {
				l = begin(t)
			}
			res := l.do(p.operation, p.kill)
			if p.interrupted || len(res.bad) > 0 {
				r.tally.Add(p.name, res.step, res.outcome())
			}
			if len(res.bad) > 0 {
				t.Errorf("%s, %s, in %s: %v", p.name, p.kill, res.step, res.bad)
				r.bad()
				l = nil
				break
			}
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

// over reports whether no more interruptions are wanted: the time is over, or one bad outcome is enough.
func (r *round) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.badSet && r.firstBad || !r.until.IsZero() && time.Now().After(r.until)
}

// most returns how often an operation is interrupted.
func (r *round) most(o operation) int {
	if r.kills > 0 {
		return r.kills
	}
	return o.usually()
}

// turns returns how often the operation is interrupted that is interrupted the most.
func (r *round) turns() (n int) {
	for _, o := range r.of {
		n = max(n, r.most(o))
	}
	return n
}

// planned is one operation of a lap.
type planned struct {
	operation
	kill        kill
	interrupted bool
}

// lap returns the operations of a turn. An agent's life, from nothing to nothing, is left out when none of its
// operations is interrupted in this turn.
func (r *round) lap(turn int) (lap []planned) {
	var agent []planned
	have, interrupted := "", false
	for _, o := range r.of {
		k, ok := r.kill(o, turn)
		agent, interrupted = append(agent, planned{o, k, ok}), interrupted || ok
		if have = o.after(have); have != "" {
			continue
		}
		if interrupted {
			lap = append(lap, agent...)
		}
		agent, interrupted = nil, false
	}
	return lap
}

// kill chooses the interruption of an operation: each point in turn, and then random instants. With fewer turns than
// points, the points are random too.
func (r *round) kill(o operation, turn int) (kill, bool) {
	dry, most := r.dry[o.name], r.most(o)
	switch {
	case turn >= most:
		return kill{}, false
	case r.each && (strings.HasSuffix(o.name, "signal") || !slices.Contains(dry.points, newStarted)):
		return kill{}, false // it starts no process
	case r.each:
		return kill{point: newStarted, each: true}, true
	case most < len(dry.points) && rand.IntN(3) > 0:
		return kill{point: dry.points[rand.IntN(len(dry.points))]}, true
	case most >= len(dry.points) && turn < len(dry.points):
		return kill{point: dry.points[turn]}, true
	}
	return kill{after: time.Duration(rand.Int64N(int64(dry.span))), again: rand.IntN(3) == 0}, true
}
