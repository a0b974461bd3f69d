package forecast_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/keep"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

func TestAWorldHasOneResult(t *testing.T) {
	w := forecast.Virtual(500, 7)
	w.Fault = forecast.Fault{Share: 0.03, Late: 0.5}
	if diff := cmp.Diff(run(t, w), run(t, w), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestAGoodVersionReachesEveryServerThatIsThere(t *testing.T) {
	w := quiet(1000)
	dead := 0
	for _, s := range w.Servers {
		if s.Dead {
			dead++
		}
	}
	r := run(t, w)
	if r.State != rolloutv1.State_STATE_SUCCEEDED || r.Touched != 1000-dead || r.Owed != dead || r.Broken != 0 {
		t.Errorf("%+v; %d servers are dead", r, dead)
	}
}

func TestAVersionThatNeverWorksReachesOnlyTheCanaries(t *testing.T) {
	for name, f := range map[string]forecast.Fault{
		"at once": {Share: 1}, "later": {Share: 1, Late: 1},
		"on a rare platform": {Share: 1, Field: "platform", Value: "linux/riscv64"},
	} {
		t.Run(name, func(t *testing.T) {
			w := quiet(1000)
			w.Fault = f
			if r := run(t, w); r.Wave != 1 || r.Touched > 20 || r.Halt.GetCode() != code.TooFewSucceed {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAKeepBudgetMakesARolloutLonger(t *testing.T) {
	w := quiet(400)
	w.Strategy.MaxBroken = all()
	short := run(t, w)
	w.Strategy.Keep = []*rolloutv1.Keep{{
		Field: "label.rack", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: 90}},
	}}
	long := run(t, w)
	if long.State != rolloutv1.State_STATE_SUCCEEDED || long.Took <= short.Took {
		t.Errorf("with the budget %+v, without %+v", long, short)
	}
}

func TestAStandingBudgetMakesARolloutLongerAndItsOtherServersCount(t *testing.T) {
	w := quiet(400)
	w.Strategy.MaxBroken = all()
	short := run(t, w)
	ninety := &rolloutv1.Keep{Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: 90}}}
	group := keep.Group{Environment: "prod", Field: "env", Value: "prod"}
	w.Budgets.Of = func(string) []rollout.Standing { return []rollout.Standing{{Keep: ninety, Group: group}} }
	long := run(t, w)
	if long.State != rolloutv1.State_STATE_SUCCEEDED || long.Took <= short.Took {
		t.Errorf("with the budget %+v, without %+v", long, short)
	}
	w.Budgets.Outside = map[keep.Group]keep.Count{group: {All: 8000, Working: 8000}}
	if r := run(t, w); r.Took >= long.Took {
		t.Errorf("beside servers that work it takes %s, want less than %s", r.Took, long.Took)
	}
	w.Budgets.Outside = map[keep.Group]keep.Count{group: {All: 8000}}
	if r := run(t, w); r.State == rolloutv1.State_STATE_SUCCEEDED || r.Touched > 0 {
		t.Errorf("beside servers that do not work: %+v, want that it waits", r)
	}
}

func TestAStrategyThatCannotBeMetIsRefused(t *testing.T) {
	w := forecast.Virtual(10, 1)
	_, err := forecast.Runs(nil, w, 3)
	if r := fault.RefusalOf(err); r.GetCode() != code.BadStrategy {
		t.Errorf("refused with %v", r)
	}
}

// quiet is a world in which nothing happens by itself.
func quiet(n int) forecast.World {
	w := forecast.Virtual(n, 3)
	w.Fails, w.BreaksPerDay, w.OfflinePerDay = 0, 0, 0
	return w
}

func run(t *testing.T, w forecast.World) forecast.Result {
	t.Helper()
	r, err := forecast.Run(w)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARolloutOnItsWayTakesWhatIsLeftOfIt(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(ago time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-ago)) }
	count := func(s rolloutv1.TargetState, n uint32) map[uint32]uint32 { return map[uint32]uint32{uint32(s): n} }
	record := &rolloutv1.Rollout{
		Id: "r", State: rolloutv1.State_STATE_RUNNING, Strategy: rollout.Filled(nil),
		Waves: []*rolloutv1.Wave{
			{
				Servers: 1, Counts: count(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED, 1), OpenedAt: at(time.Minute),
				SettledAt: at(30 * time.Second), PassedAt: at(30 * time.Second),
			},
			{Servers: 3, Counts: count(rolloutv1.TargetState_TARGET_STATE_REACHED, 3), OpenedAt: at(30 * time.Second)},
		},
		Owed: &rolloutv1.Wave{},
	}
	w := forecast.World{
		ID: "r", Durations: []time.Duration{20 * time.Second}, From: &forecast.Point{Now: now, Rollout: record},
	}
	for n := range 4 {
		x := &rolloutv1.Target{
			ServerId: fmt.Sprint("s", n), Wave: 2, State: rolloutv1.TargetState_TARGET_STATE_REACHED,
			TakenAt: at(5 * time.Second), Place: uint32(n),
		}
		if n == 0 {
			x.Wave, x.State = 1, rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
		}
		w.From.Targets = append(w.From.Targets, x)
		w.Servers = append(w.Servers, forecast.Server{Candidate: rollout.Candidate{ServerID: x.ServerId}})
	}
	o, err := forecast.Runs(nil, w, 5)
	if err != nil || o.Succeeded != 5 || o.Took50 != 15*time.Second || o.Took90 != 15*time.Second {
		t.Errorf("of 5 runs %d succeeded, in %s and %s, %v; want all in 15s", o.Succeeded, o.Took50, o.Took90, err)
	}
}

// all is a limit that every server may reach.
func all() *rolloutv1.Limit { return &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: 100}} }

// hurried is a strategy that changes as many servers at once as there are.
func hurried() *rolloutv1.Strategy { return rollout.Filled(&rolloutv1.Strategy{Emergency: true}) }

// alike is a world of servers whose changes take 20 s each, in one wave.
func alike(n int) forecast.World {
	w := forecast.World{ID: "r", Strategy: hurried(), Durations: []time.Duration{20 * time.Second}, Slots: 20}
	for i := range n {
		w.Servers = append(w.Servers, forecast.Server{Candidate: rollout.Candidate{ServerID: fmt.Sprint("s", i)}})
	}
	return w
}

func TestChangesWaitForASlot(t *testing.T) {
	for name, c := range map[string]struct {
		servers     int
		concurrency uint32
		slots       int
		want        time.Duration
	}{
		"as many as slots":      {20, 0, 20, 20 * time.Second},
		"more than slots":       {150, 0, 20, 160 * time.Second},
		"a smaller concurrency": {150, 10, 20, 300 * time.Second},
		"a larger concurrency":  {150, 50, 20, 160 * time.Second},
		"no limit":              {150, 0, 0, 20 * time.Second},
	} {
		w := alike(c.servers)
		w.Slots, w.Strategy.Concurrency = c.slots, c.concurrency
		if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != c.want {
			t.Errorf("%s: %s after %s; want success after %s", name, r.State, r.Took, c.want)
		}
	}
}

func TestAWaveOfOneServerChangesOneAtOnce(t *testing.T) {
	w := alike(5)
	for range w.Servers {
		one := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: 1}}
		w.Strategy.Stages = append(w.Strategy.Stages, one)
	}
	if o, err := forecast.Runs(nil, w, 3); err != nil || o.Succeeded != 3 || o.AtOnce != 1 {
		t.Errorf("%+v, %v; want one at once", o, err)
	}
	if o, err := forecast.Runs(nil, alike(5), 3); err != nil || o.AtOnce != 5 {
		t.Errorf("%+v, %v; want all at once", o, err)
	}
}

func TestAWaveThatBeginsWithFewTakesLongerThanTheWayBack(t *testing.T) {
	w := alike(14)
	w.Strategy = rollout.Filled(&rolloutv1.Strategy{MaxBroken: all()})
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != time.Minute {
		t.Errorf("%s after %s; want success after three rounds of 2, 4 and 8", r.State, r.Took)
	}
	w.Undoes = "the bad one"
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != 20*time.Second {
		t.Errorf("the way back: %s after %s; want success after one round", r.State, r.Took)
	}
}

// Of 60 servers, 20 are being changed for a time that is not known, since they were released with the others.
func TestARolloutOnItsWayTakesAsLongAsItsQueue(t *testing.T) {
	w, now := alike(60), time.Unix(1_000_000, 0)
	ago := timestamppb.New(now.Add(-100 * time.Second))
	w.From = &forecast.Point{Now: now, Rollout: &rolloutv1.Rollout{
		Id: "r", State: rolloutv1.State_STATE_RUNNING, Strategy: w.Strategy, Owed: &rolloutv1.Wave{},
		Waves: []*rolloutv1.Wave{{Servers: 60, OpenedAt: ago, Counts: map[uint32]uint32{
			uint32(rolloutv1.TargetState_TARGET_STATE_REACHED): 60,
		}}},
	}}
	for n, s := range w.Servers {
		w.From.Targets = append(w.From.Targets, &rolloutv1.Target{
			ServerId: s.ServerID, Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_REACHED, TakenAt: ago,
			Place: uint32(n),
		})
		w.From.Queued = append(w.From.Queued, n%3 > 0)
	}
	r := run(t, w)
	if r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took < 40*time.Second || r.Took > 60*time.Second {
		t.Errorf("%s after %s; want success after 40 s to 60 s", r.State, r.Took)
	}
}

func TestWhatOthersHaveUnderWayComesFirst(t *testing.T) {
	for name, c := range map[string]struct {
		busy, beside int
		least, most  time.Duration
	}{
		"alone":                   {0, 0, 20 * time.Second, 20 * time.Second},
		"half of the slots taken": {10, 0, 40 * time.Second, 40 * time.Second},
		"a long queue before it":  {60, 0, 80 * time.Second, 80 * time.Second},
		"another one beside it":   {0, 20, 21 * time.Second, 40 * time.Second},
		"a large one beside it":   {0, 2000, 10 * time.Minute, time.Hour},
	} {
		w := alike(20)
		w.Busy, w.Beside = c.busy, c.beside
		if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took < c.least || r.Took > c.most {
			t.Errorf("%s: %s after %s; want success after %s to %s", name, r.State, r.Took, c.least, c.most)
		}
	}
}

// Another rollout changes one of two servers, of which one must work.
func TestAServerThatAnotherRolloutChangesDoesNotWorkUntilItIsDone(t *testing.T) {
	w := alike(2)
	w.Strategy.Keep = []*rolloutv1.Keep{{
		Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}},
	}}
	free := run(t, w)
	w.Servers[0].Busy = true
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took < free.Took {
		t.Errorf("%s after %s; want success, and no sooner than after %s", r.State, r.Took, free.Took)
	}
	w.Servers[0].Busy, w.Servers[1].Busy = true, true
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED {
		t.Errorf("both are being changed: %s; want success", r.State)
	}
}

func TestARolloutWaitsForAWindow(t *testing.T) {
	w := alike(4)
	w.Strategy = rollout.Filled(&rolloutv1.Strategy{MaxBroken: all()})
	w.Begin = time.Unix(1_000_000, 0)
	opens := w.Begin.Add(3 * time.Hour)
	w.Closed = func(server string, at time.Time) (time.Time, string) {
		if server == "s0" || !at.Before(opens) {
			return time.Time{}, ""
		}
		return opens, "outside its windows"
	}
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != 3*time.Hour+20*time.Second {
		t.Errorf("%s after %s; want success 20 s after it opens", r.State, r.Took)
	}
	w.Strategy.Emergency = true
	if r := run(t, w); r.Took != 20*time.Second {
		t.Errorf("in an emergency after %s; want 20 s", r.Took)
	}
}

func TestTheStepsOfAServerFollowEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		steps []int
		slots int
		want  time.Duration
	}{
		"two agents at once":        {[]int{2}, 20, 20 * time.Second},
		"two hops":                  {[]int{1, 1}, 20, 40 * time.Second},
		"three hops":                {[]int{1, 1, 1}, 20, time.Minute},
		"two agents, one slot each": {[]int{2}, 4, 40 * time.Second},
		"two hops in a queue":       {[]int{1, 1}, 2, 80 * time.Second},
	} {
		w := alike(4)
		w.Slots = c.slots
		for n := range w.Servers {
			w.Servers[n].Steps = c.steps
		}
		if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != c.want {
			t.Errorf("%s: %s after %s; want success after %s", name, r.State, r.Took, c.want)
		}
	}
}

func TestAServerOnItsWayMakesTheStepsThatAreLeft(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	w := alike(1)
	x := &rolloutv1.Target{
		ServerId: "s0", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_REACHED, Step: 2,
		TakenAt: timestamppb.New(now.Add(-time.Second)),
		Changes: []*rolloutv1.Change{{Agent: "a", Step: 1}, {Agent: "a", Step: 2}, {Agent: "a", Step: 3}},
	}
	w.Servers[0].Steps = forecast.StepsOf(x)
	w.From = &forecast.Point{Now: now, Targets: []*rolloutv1.Target{x}, Rollout: &rolloutv1.Rollout{
		Id: "r", State: rolloutv1.State_STATE_RUNNING, Strategy: w.Strategy, Owed: &rolloutv1.Wave{},
		Waves: []*rolloutv1.Wave{{Servers: 1, OpenedAt: x.TakenAt, Counts: map[uint32]uint32{
			uint32(rolloutv1.TargetState_TARGET_STATE_REACHED): 1,
		}}},
	}}
	if r := run(t, w); r.State != rolloutv1.State_STATE_SUCCEEDED || r.Took != 39*time.Second {
		t.Errorf("%s after %s; want success after 39 s", r.State, r.Took)
	}
}
