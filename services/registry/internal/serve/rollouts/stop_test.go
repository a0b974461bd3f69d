package rollouts

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// wanting returns the instances that want a version of web.
func (f *fleet) wanting(version string) (out []*instancev1.Instance) {
	for _, s := range f.servers {
		if i := f.Instance(s, "web"); i.GetWanted().GetVersion() == version {
			out = append(out, i)
		}
	}
	return out
}

// cancel ends the queued tasks of instances as the dispatcher does when their intents are withdrawn.
func (f *fleet) cancel(due []*instancev1.Instance) {
	f.T.Helper()
	for _, i := range due {
		if in, _ := f.View.Intent(i.IntentId); in.GetState() != intentv1.State_STATE_WITHDRAWN {
			f.T.Errorf("the intent of %s is %s", i.ServerId, in.GetState())
		}
		f.Task(i, &taskv1.Cancelled{Reason: "its intent was withdrawn by registry", Withdrawn: true})
	}
}

func (f *fleet) states(id string) map[rolloutv1.TargetState]int {
	out := map[rolloutv1.TargetState]int{}
	for _, s := range f.servers {
		out[f.target(id, s).GetState()]++
	}
	return out
}

const (
	pending = rolloutv1.TargetState_TARGET_STATE_PENDING
	reached = rolloutv1.TargetState_TARGET_STATE_REACHED
	broken  = rolloutv1.TargetState_TARGET_STATE_BROKEN
)

// In an emergency a wave is released as a whole, and the dispatcher changes so many servers at once. What none of them
// began by the time that the rollout stops is withdrawn, waits for its turn again, and is released again when the
// rollout goes on.
func TestAHaltWithdrawsWhatWasReleasedAndNotBegun(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web")
	id := f.start(up(hurried()))
	f.look()
	due := f.wanting("1.1.0")
	f.Do(due[0], true)
	f.look()
	in, _ := f.View.Intent(due[1].IntentId)
	if in.WithdrawnBy != ledger.Registry || in.WithdrawnReason != "its rollout "+id+" is halted" {
		t.Errorf("the intent is withdrawn by %q: %s", in.WithdrawnBy, in.WithdrawnReason)
	}
	f.cancel(due[1:])
	if have := f.states(id); have[broken] != 1 || have[pending] != 3 {
		t.Errorf("its servers are %v", have)
	}
	f.Duties()
	f.control(id, resume)
	f.succeeds(id)
	f.wants("1.1.0", 3)
}

// Both agents of a server are to go back in one step. One of them fails, and the other one is queued.
func TestAHaltOfAnUndoWithdrawsWhatIsQueuedForABrokenServer(t *testing.T) {
	t.Parallel()
	f := running(t, 1, "web", "db")
	id := f.start(both())
	f.succeeds(id)
	undoing := f.start(undoOf(id, &rolloutv1.Strategy{}))
	f.look()
	f.Do(f.Instance(f.servers[0], "web"), true)
	if have := f.states(undoing); have[broken] != 1 {
		t.Fatalf("its servers are %v", have)
	}
	f.look()
	in, _ := f.View.Intent(f.Instance(f.servers[0], "db").IntentId)
	if in.GetState() != intentv1.State_STATE_WITHDRAWN {
		t.Errorf("what is queued for db is %s", in.GetState())
	}
}

// What the pause withdraws is not wanted again yet when the undo goes on, and nothing may be decided on it.
func TestAnUndoAfterAHaltThatIsPausedAndResumedAtOnceTakesEveryServerBack(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web")
	one := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}
	id := f.start(up(&rolloutv1.Strategy{MaxBroken: one, Emergency: true}))
	f.look()
	for n, i := range f.wanting("1.1.0") {
		f.Do(i, n > 1)
	}
	f.until("its broken servers are taken back", nil, func() bool {
		return f.is(id, rolloutv1.State_STATE_HALTED)() && f.View.CountUnrestored(id) == 0
	})
	undoing := f.start(undoOf(id, &rolloutv1.Strategy{}))
	f.look()
	if have := f.states(undoing); have[reached] != 2 {
		t.Fatalf("its servers are %v", have)
	}
	back := []*instancev1.Instance{f.Instance(f.servers[0], "web"), f.Instance(f.servers[1], "web")}
	f.control(undoing, pause)
	f.look()
	f.control(undoing, resume)
	f.cancel(back)
	f.look()
	if have := f.states(undoing); have[reached] != 0 {
		t.Errorf("before the withdrawn changes are restored, its servers are %v", have)
	}
	f.Duties()
	f.succeeds(undoing)
	f.wants("1.0.0", 4)
}

func TestAnUndoThatWasAbortedCanBeRepeated(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	id := f.start(up(nil))
	f.succeeds(id)
	gates := &rolloutv1.Strategy{Approve: true, Stages: []*rolloutv1.Stage{taking(1)}}
	first := f.start(undoOf(id, gates))
	f.until("its first wave passed", nil, f.passed(first, 1))
	refused := func(text string) {
		t.Helper()
		_, d := f.decide(undoOf(id, nil))
		if d.Refusal.GetCode() != code.NotUndoable || !strings.Contains(d.Refusal.GetMessage(), text) {
			t.Errorf("refused with %v; want %q", d.Refusal, text)
		}
	}
	refused("is being undone by rollout " + first)
	f.control(first, abort)
	again := f.start(undoOf(id, &rolloutv1.Strategy{}))
	if r := f.rollout(again); r.Waves[0].Servers != 2 {
		t.Errorf("the second undo has waves %v; want the two servers that the first one did not reach", r.Waves)
	}
	f.succeeds(again)
	f.wants("1.0.0", 3)
	if r := f.rollout(id); r.State != rolloutv1.State_STATE_UNDONE || r.UndoneBy != again {
		t.Errorf("the rollout is %s by %s; want it undone by %s", r.State, r.UndoneBy, again)
	}
	refused("was undone by rollout " + again)
}

// What the aborted undo queued is withdrawn, and belongs to the next undo even where that is not recorded yet.
func TestAnUndoTakesBackWhatTheOneBeforeHadQueuedWhenItWasAborted(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	id := f.start(up(nil))
	f.succeeds(id)
	first := f.start(undoOf(id, &rolloutv1.Strategy{}))
	f.look()
	queued := f.wanting("1.0.0")
	f.control(first, abort)
	again := f.start(undoOf(id, &rolloutv1.Strategy{}))
	if r := f.rollout(again); len(queued) != 2 || r.Waves[0].Servers != 2 {
		t.Errorf("of %d queued, the second undo has waves %v; want both servers", len(queued), r.Waves)
	}
	f.look()
	f.cancel(queued)
	f.Duties()
	f.succeeds(again)
	f.wants("1.0.0", 2)
}

// Two registries may decide on one view. Each of two rollouts keeps all servers but one working.
func TestOfTwoReleasesUnderKeepBudgetsThatAreDecidedOnOneViewOneIsRecorded(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web", "db")
	for _, agent := range []string{"web", "db"} {
		in := up(&rolloutv1.Strategy{Keep: []*rolloutv1.Keep{{
			Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 3}},
		}}})
		in.GetRollout().Steps[0].GetUpgrade().Agent = agent
		f.start(in)
	}
	var decided [][]ledger.Draft
	for _, r := range f.View.Rollouts() {
		f.Fact(ledger.Rollout, r.Id, &rolloutv1.Opened{Wave: 1})
	}
	for _, r := range f.View.Rollouts() {
		in, _ := f.View.Intent(r.Id)
		d, drafts, _ := f.work.decide(r.Id, in.Intent)
		if decided = append(decided, drafts); len(d.Release) != 1 {
			t.Fatalf("released %v; want one server", d.Release)
		}
	}
	if _, err := f.Append(t.Context(), decided[0]...); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Append(t.Context(), decided[1]...); !fault.Is(err, fault.Conflict) {
		t.Errorf("the second release: %v; want a conflict", err)
	}
}
