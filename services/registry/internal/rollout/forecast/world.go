package forecast

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// World is a rollout and the fleet that it meets.
type World struct {
	ID       string
	Servers  []Server
	Strategy *rolloutv1.Strategy
	Undoes   string // what the rollout undoes, or ""
	Budgets  Budgets
	// Durations is how long changes took, in any order; each change of a server takes one of them.
	Durations []time.Duration
	// Fails is the share of changes that fail whatever the new version is.
	Fails float64
	// Fault is what is wrong with the new version.
	Fault Fault
	// BreaksPerDay is how often a server becomes unhealthy by itself, changed or not.
	BreaksPerDay float64
	// Slots is how many changes are under way at once; further ones wait in the order in which they were released. 0
	// means that there is no limit.
	Slots int
	// OfflinePerDay is how often a server goes offline by itself, and OfflineFor how long it stays away on average.
	OfflinePerDay float64
	OfflineFor    time.Duration
	Seed          uint64
	From          *Point // where runs go on; nil means from the plan
	// Begin is when a run begins that does not go on from a point; the zero time means any time.
	Begin time.Time
	// Closed returns why a server must not be changed at a time, "" when it may be, and until when; zero means without
	// end. Nil means that servers may be changed at any time.
	Closed func(server string, at time.Time) (until time.Time, why string)
	// Busy is how many changes of others are under way or queued when a run begins: they take slots first.
	Busy int
	// Beside is how many changes others have yet to begin: they take slots in turn with the rollout's.
	Beside int

	stop <-chan struct{} // ends a run early once it is closed; nil means never
}

// Server is a server of a world.
type Server struct {
	rollout.Candidate
	Dead  bool  // it is offline and does not come back
	Slow  bool  // its changes take ten times as long
	Busy  bool  // another change is under way on it when a run begins
	Steps []int // how many changes each step has, which follow each other; nil means one change
}

// StepsOf returns how many changes each step of a target has, for Server.Steps.
func StepsOf(t *rolloutv1.Target) (steps []int) {
	for _, c := range t.Changes {
		n := int(rollout.StepOf(c))
		for len(steps) < n {
			steps = append(steps, 0)
		}
		steps[n-1]++
	}
	return steps
}

// Fault is what is wrong with a new version.
type Fault struct {
	Share float64 // of the servers that it meets
	Late  float64 // of those, how many pass the health check of the change and break within minutes
	Field string  // it meets only servers with a value of a field; empty for all
	Value string
}

// Result is how a rollout went.
type Result struct {
	State   rolloutv1.State
	Took    time.Duration  // until it succeeded or halted
	Halt    *apiv1.Refusal // why it halted, or nil
	Wave    uint32         // in which wave it halted
	Touched int            // servers that were changed
	Broken  int            // servers that broke
	Owed    int            // servers that are owed
	AtOnce  int            // the most servers that were under way at once
}

// Standard is the strategy that the tables in deploy/docs/rollouts.md measure: canaries, 2 %, 10 %, 50 % and the rest.
func Standard() *rolloutv1.Strategy {
	s := &rolloutv1.Strategy{
		Stages: []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Canaries{Canaries: 20}}},
		Soak:   durationpb.New(5 * time.Minute), SuccessPercent: 99, ComparePermille: 1,
	}
	for _, p := range []uint32{2, 10, 50} {
		s.Stages = append(s.Stages, &rolloutv1.Stage{Size: &rolloutv1.Stage_Percent{Percent: p}})
	}
	return rollout.Filled(s)
}

// Virtual returns a world of n servers: three platforms, of which linux/riscv64 has 1 % of the servers, three
// environments and racks of 40; 1 % are offline from the start, 1 % no longer answer and are offline for the
// registry too, 1 % are slow. A change takes 20 s in the median.
func Virtual(n int, seed uint64) World {
	random := rand.New(rand.NewPCG(seed, 0))
	w := World{
		ID: fmt.Sprint("rollout-", seed), Strategy: Standard(), Seed: seed, Fails: 0.0003, BreaksPerDay: 0.001,
		OfflinePerDay: 0.005, OfflineFor: 10 * time.Minute,
	}
	for i := range n {
		platform, env := "linux/amd64", "prod"
		switch p := random.Float64(); {
		case p < 0.01:
			platform = "linux/riscv64"
		case p < 0.2:
			platform = "linux/arm64"
		}
		switch e := random.Float64(); {
		case e < 0.05:
			env = "test"
		case e < 0.2:
			env = "stage"
		}
		dead := random.Float64() < 0.02
		w.Servers = append(w.Servers, Server{
			Candidate: rollout.Candidate{ServerID: fmt.Sprintf("server-%05d", i), Owed: dead, Fields: map[string]string{
				"platform": platform, "env": env, "label.rack": fmt.Sprint("r", i/40),
			}},
			Dead: dead, Slow: random.Float64() < 0.01,
		})
	}
	for range 1000 {
		took := math.Exp(math.Log(20) + 0.5*random.NormFloat64())
		w.Durations = append(w.Durations, time.Duration(took*float64(time.Second)))
	}
	return w
}

// slots is when the changes end that were the last to begin, the first end first: at most as many as may be under way
// at once. It implements heap.Interface.
type slots []time.Time

func (s slots) Len() int           { return len(s) }
func (s slots) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s slots) Less(i, j int) bool { return s[i].Before(s[j]) }
func (s *slots) Push(x any)        { *s = append(*s, x.(time.Time)) }
func (s *slots) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// wait returns how long a change that is released now waits until it begins, and takes a slot of n for its time; with
// n 0 it does not wait.
func (s *slots) wait(n int, now time.Time, took time.Duration) (wait time.Duration) {
	if n == 0 {
		return 0
	}
	if len(*s) >= n {
		wait = max(0, heap.Pop(s).(time.Time).Sub(now))
	}
	heap.Push(s, now.Add(wait+took))
	return wait
}
