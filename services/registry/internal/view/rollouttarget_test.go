package view_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// rolled is a view with a rollout of two agents whose only server was released.
type rolled struct {
	*view.View
	last uint64
}

func released(agents ...string) *rolled {
	r := &rolled{View: view.New()}
	r.fold(ledger.Server, "s", &serverv1.Invited{Name: "s", Cell: "main"})
	r.fold(ledger.Server, "s", &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
	r.fold(ledger.Server, "s", &serverv1.Online{})
	t := &rolloutv1.Target{ServerId: "s", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_PENDING}
	for _, agent := range agents {
		t.Changes = append(t.Changes, &rolloutv1.Change{Agent: agent, To: &imagev1.Ref{Id: agent + "2"}})
	}
	r.fold(ledger.Rollout, "r", &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, Targets: []*rolloutv1.Target{t}, Strategy: &rolloutv1.Strategy{},
	})
	r.fold(ledger.Rollout, "r", &rolloutv1.Opened{Wave: 1})
	return r
}

func (r *rolled) fold(noun ledger.Noun, key string, body proto.Message) {
	r.last++
	r.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(r.last), 0), Sequence: r.last})
}

// upgrade is the derived intent that changes an agent on the server.
func upgrade(agent string) *intentv1.Intent {
	return &intentv1.Intent{
		Source: &intentv1.Source{RolloutId: "r", Wave: 1},
		Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
			Agent: agent, On: &intentv1.Selector{Servers: []string{"s"}},
		}},
	}
}

func TestAServerThatWentOfflineBeforeItsReleaseWasRecordedIsSilentSinceThen(t *testing.T) {
	r := released("web")
	r.fold(ledger.Server, "s", &serverv1.Offline{})
	r.fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}})
	r.fold(ledger.Intent, "i", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s"}})
	got, _ := r.Target("r", "s")
	if got.State != rolloutv1.TargetState_TARGET_STATE_REACHED || got.SilentSince == nil {
		t.Errorf("it is %v; want reached, and silent since then", got)
	}
}

func TestAServerOfWhichOneChangeIsRefusedDoesNotSucceed(t *testing.T) {
	r := released("db", "web")
	r.fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}})
	why := &apiv1.Refusal{Code: code.Held, Message: "it is held"}
	r.fold(ledger.Intent, "i", &intentv1.Refused{Intent: upgrade("db"), Refusal: why})
	r.fold(ledger.Intent, "j", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s"}})
	got, _ := r.Target("r", "s")
	if got.State != rolloutv1.TargetState_TARGET_STATE_BROKEN || got.Reason.GetCode() != code.Held {
		t.Errorf("it is %v; want broken, because it is held", got)
	}
	if len(got.IntentIds) != 2 || got.IntentIds[0] != "" || got.IntentIds[1] != "j" {
		t.Errorf("its intents are %q; want the second alone, which is to be taken back", got.IntentIds)
	}
}

// changing is a rollout of web whose task on the only server is under way.
func changing(t *testing.T) *rolled {
	t.Helper()
	r := released("web")
	web := &imagev1.Ref{Id: "web2"}
	wanted := &instancev1.Wanted{InstanceId: "n", Generation: 7, Image: web, IntentId: "i"}
	r.fold(ledger.Instance, "s.web", wanted)
	r.fold(ledger.Intent, "i", &intentv1.Accepted{Intent: upgrade("web"), Changed: 1, ServerIds: []string{"s"}})
	r.fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}})
	r.fold(ledger.Task, "t", &taskv1.Queued{
		ServerId: "s", Agent: "web", InstanceId: "n", Generation: 7, Attempt: 1, To: web, IntentId: "i",
	})
	r.fold(ledger.Task, "t", &taskv1.Assigned{})
	r.fold(ledger.Task, "t", &taskv1.Started{})
	return r
}

func (r *rolled) observe(generation uint64, h instancev1.Health) {
	r.fold(ledger.Instance, "s.web", &instancev1.Observed{
		InstanceId: "n", Generation: generation, Health: h, Image: &imagev1.Ref{Id: "web2"}, Reason: "exit 1",
	})
}

func (r *rolled) want(t *testing.T, when string, want rolloutv1.TargetState) {
	t.Helper()
	if got, _ := r.Target("r", "s"); got.State != want {
		t.Fatalf("%s it is %v; want %s", when, got, want)
	}
}

const (
	good = instancev1.Health_HEALTH_GOOD
	bad  = instancev1.Health_HEALTH_BAD

	isReached   = rolloutv1.TargetState_TARGET_STATE_REACHED
	isSucceeded = rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
	isBroken    = rolloutv1.TargetState_TARGET_STATE_BROKEN
)

func TestAnAgentThatDiedBetweenItsHealthCheckAndTheEndOfItsTaskIsBroken(t *testing.T) {
	r := changing(t)
	r.observe(7, bad) // the report that shows it comes before the end of the task, and nothing changes after it
	r.want(t, "before the end of the task", isReached)
	r.fold(ledger.Task, "t", &taskv1.Succeeded{})
	r.want(t, "after the end of the task", isBroken)
	if got, _ := r.Target("r", "s"); got.Reason.GetCode() != code.UnhealthySinceReach {
		t.Errorf("because of %v", got.Reason)
	}
}

func TestAStaleObservationNeitherBreaksAServerNorLetsItSucceed(t *testing.T) {
	r := changing(t)
	r.observe(3, bad)
	r.fold(ledger.Task, "t", &taskv1.Succeeded{})
	r.want(t, "after an observation of what ran before,", isReached)
	if n := len(slices.Collect(r.Silent("r"))); n != 1 {
		t.Errorf("%d servers are silent; want the one whose observation is awaited", n)
	}
	r.observe(5, bad)
	r.want(t, "after another observation of what ran before,", isReached)
	r.observe(7, good)
	r.want(t, "once it was seen healthy", isSucceeded)
	r.observe(7, bad)
	r.want(t, "once it was seen unhealthy later", isBroken)
}

func TestAServerThatIsSeenHealthyFirstSucceedsWithTheEndOfItsTask(t *testing.T) {
	r := changing(t)
	r.observe(7, bad)
	r.observe(7, good)
	r.fold(ledger.Task, "t", &taskv1.Succeeded{})
	r.want(t, "after the end of the task", isSucceeded)
}

func TestAnAgentThatIsRemovedByHandAfterItsChangeIsNotAwaited(t *testing.T) {
	r := changing(t)
	r.fold(ledger.Task, "t", &taskv1.Succeeded{})
	r.want(t, "after the end of the task", isReached)
	r.fold(ledger.Instance, "s.web", &instancev1.Unwanted{InstanceId: "n", Generation: 8, IntentId: "x"})
	r.want(t, "after its removal", isSucceeded)
}

func TestABrokenServerThatWasLeftOutOfItsRestorationIsTriedAgain(t *testing.T) {
	r := changing(t)
	r.fold(ledger.Task, "t", &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady}})
	r.want(t, "after its rollback", isBroken)
	undo := &intentv1.Intent{
		Source: &intentv1.Source{RolloutId: "r", Wave: 1},
		Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{
			IntentId: "i", On: &intentv1.Selector{Servers: []string{"s"}},
		}},
	}
	held := &apiv1.Refusal{Code: code.Held, Message: "it is held"}
	r.fold(ledger.Intent, "u1", &intentv1.Refused{Intent: undo, Refusal: held})
	got, _ := r.Target("r", "s")
	if got.RestoredBy != "" || got.NotRestoredBy != "u1" || got.Reason.GetCode() != code.Held {
		t.Errorf("it is %v; want it to be tried again", got)
	}
	first := rollout.RestoreFrom(got).Sub(got.NotRestoredAt.AsTime())
	if n := r.CountUnrestored("r"); n != 1 || first != time.Minute {
		t.Errorf("%d servers are to be taken back, after %s; want 1, after a minute", n, first)
	}
	r.last += 600
	r.fold(ledger.Intent, "u2", &intentv1.Refused{Intent: undo, Refusal: held})
	if got, _ = r.Target("r", "s"); rollout.RestoreFrom(got).Sub(got.NotRestoredAt.AsTime()) < 10*time.Minute {
		t.Errorf("it is tried again at %s after %v; want a longer pause", rollout.RestoreFrom(got), got)
	}
	r.fold(ledger.Intent, "u3", &intentv1.Accepted{Intent: undo, Changed: 1, ServerIds: []string{"s"}})
	if got, _ = r.Target("r", "s"); got.RestoredBy != "u3" || got.NotRestoredBy != "" || r.CountUnrestored("r") > 0 {
		t.Errorf("it is %v; want it restored", got)
	}
}

func TestOfTwoRolloutsThatTakeAServerTheFirstInTheLedgerHasIt(t *testing.T) {
	for name, c := range map[string]struct {
		agent  string
		how    *rolloutv1.Strategy
		undoes string
		after  []proto.Message // of the first one
		out    bool
	}{
		"the same agent":          {agent: "web", out: true},
		"another agent":           {agent: "db"},
		"in an emergency":         {agent: "web", how: &rolloutv1.Strategy{Emergency: true}},
		"an undo of it":           {agent: "web", undoes: "r"},
		"after it ended":          {agent: "web", after: []proto.Message{&rolloutv1.Aborted{}}},
		"after it was done there": {agent: "web", after: []proto.Message{&rolloutv1.Succeeded{}}},
		"after it broke there, beside": {agent: "web", after: []proto.Message{
			&rolloutv1.Released{Wave: 1, ServerIds: []string{"s"}}, &rolloutv1.Silenced{ServerIds: []string{"s"}},
		}},
	} {
		r := released("web")
		for _, body := range c.after {
			r.fold(ledger.Rollout, "r", body)
		}
		r.fold(ledger.Rollout, "later", &rolloutv1.Planned{
			Waves: []uint32{1}, Part: 1, Parts: 1, Strategy: c.how, Undoes: c.undoes,
		})
		r.fold(ledger.Rollout, "later", &rolloutv1.Extended{Targets: []*rolloutv1.Target{{
			ServerId: "s", Wave: 1, Changes: []*rolloutv1.Change{{Agent: c.agent, To: &imagev1.Ref{Id: "new"}}},
		}}})
		have, _ := r.Target("later", "s")
		out := have.GetState() == rolloutv1.TargetState_TARGET_STATE_LEFT_OUT
		if out != c.out || out && have.Reason.GetCode() != code.RolloutOverlaps || have == nil {
			t.Errorf("%s: %v; want it left out: %v", name, have, c.out)
		}
	}
}

// Another change was asked for while the release waited for a critical section, and was withdrawn when the server had
// given the release up already: no other task of it follows.
func TestAReleaseThatItsServerGaveUpAndThatIsWantedAgainLeavesItsServerOut(t *testing.T) {
	r := changing(t)
	r.fold(ledger.Task, "t", &taskv1.Deferred{})
	r.fold(ledger.Instance, "s.web", &instancev1.Wanted{
		InstanceId: "n", Generation: 8, Image: &imagev1.Ref{Id: "web3"}, IntentId: "j",
	})
	r.fold(ledger.Instance, "s.web", &instancev1.Wanted{
		InstanceId: "n", Generation: 9, Image: &imagev1.Ref{Id: "web2"}, IntentId: "i", RevertedIntentId: "j",
	})
	r.want(t, "wanted again", rolloutv1.TargetState_TARGET_STATE_REACHED)
	r.fold(ledger.Task, "t", &taskv1.Cancelled{Code: code.GivenUp})
	r.want(t, "given up", rolloutv1.TargetState_TARGET_STATE_LEFT_OUT)
}
