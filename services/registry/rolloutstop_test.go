package registry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// A wave is released as a whole, and the dispatcher changes so many servers at once. What none of them began by the
// time that the rollout stops is withdrawn, waits for its turn again, and is released again when the rollout goes on.
func TestAHaltWithdrawsWhatWasReleasedAndNotBegun(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	strategy := &rolloutv1.Strategy{MaxBroken: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 0}}}
	id := s.accepted(topology.VerbRollout, inOneWave(strategy)).Id
	due := s.wantsOnAll(4, "1.1.0")

	s.append(worked(due[0], true)...)
	bustest.Eventually(t, "what the halted rollout released is withdrawn", func() (withdrawn bool) {
		s.r.follower.Read(func() {
			in, _ := s.r.records.View.Intent(due[1].IntentId)
			withdrawn = in.GetState() == intentv1.State_STATE_WITHDRAWN && in.WithdrawnBy == ledger.Registry &&
				in.WithdrawnReason == "its rollout "+id+" is halted"
		})
		return withdrawn
	})
	s.cancelQueued(due[1:])
	s.targetsAre(id, map[rolloutv1.TargetState]int{
		rolloutv1.TargetState_TARGET_STATE_BROKEN: 1, rolloutv1.TargetState_TARGET_STATE_PENDING: 3,
	})
	s.wantsOnAll(4, "1.0.0")

	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout ends", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.1.0"] != 3 {
		t.Errorf("versions %v, want 1.1.0 on the three that were held back", have)
	}
}

func TestAPauseWithdrawsWhatWasReleasedAndNotBegun(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{})).Id
	due := s.wantsOnAll(2, "1.1.0")
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	s.cancelQueued(due)
	s.targetsAre(id, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_PENDING: 2})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.1.0"] != 2 {
		t.Errorf("versions %v", have)
	}
}

func inOneWave(strategy *rolloutv1.Strategy) *intentv1.Intent {
	in := waves(strategy)
	in.GetRollout().Strategy.Stages = nil
	return in
}

// wantsOnAll waits until a version of web is wanted on so many servers, and returns their instances.
func (s *site) wantsOnAll(servers int, version string) (out []*instancev1.Instance) {
	s.t.Helper()
	bustest.Eventually(s.t, version+" is wanted", func() bool {
		out = nil
		s.r.follower.Read(func() {
			for i := range s.r.records.View.InstancesOfAgent("web") {
				if i.Wanted.GetVersion() == version {
					out = append(out, proto.CloneOf(i))
				}
			}
		})
		return len(out) == servers
	})
	return out
}

// cancelQueued does what the dispatcher does about the queued tasks of intents that are withdrawn.
func (s *site) cancelQueued(due []*instancev1.Instance) {
	s.t.Helper()
	s.untilWithdrawn(due)
	s.cancel(due)
}

// untilWithdrawn waits until the intents of instances are withdrawn.
func (s *site) untilWithdrawn(due []*instancev1.Instance) {
	s.t.Helper()
	bustest.Eventually(s.t, "their intents are withdrawn", func() (all bool) {
		s.r.follower.Read(func() {
			all = !slices.ContainsFunc(due, func(i *instancev1.Instance) bool {
				in, _ := s.r.records.View.Intent(i.IntentId)
				return in.GetState() != intentv1.State_STATE_WITHDRAWN
			})
		})
		return all
	})
}

// cancel ends the queued tasks of instances as the dispatcher does when their intents are withdrawn.
func (s *site) cancel(due []*instancev1.Instance) {
	s.t.Helper()
	for _, i := range due {
		id := ident.New()
		s.append(
			fact(ledger.Task, id, &taskv1.Queued{
				Verb: taskv1.Verb_VERB_UPGRADE, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id,
				Generation: i.Generation, Attempt: 1, From: i.Observed, To: i.Wanted, IntentId: i.IntentId,
			}),
			fact(ledger.Task, id, &taskv1.Cancelled{Reason: "its intent was withdrawn by registry", Withdrawn: true}))
	}
}

func (s *site) targetsAre(id string, want map[rolloutv1.TargetState]int) {
	s.t.Helper()
	bustest.Eventually(s.t, "the targets move", func() (are bool) {
		s.r.follower.Read(func() {
			are = true
			for state, n := range want {
				have := 0
				for range s.r.records.View.TargetsOf(id, state) {
					have++
				}
				are = are && have == n
			}
		})
		return are
	})
}

// Both agents of a server are to go back in one step. One of them fails, and the other one is queued.
func TestAHaltOfAnUndoWithdrawsWhatIsQueuedForABrokenServer(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 1)
	s.agent("db")
	s.image("db", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("db", &intentv1.Selector{All: true}))
	s.eventually("db runs", nil, func() bool { return s.converged("db") == 1 })
	s.image("db", "1.1.0", "release")
	in := inOneWave(&rolloutv1.Strategy{})
	in.GetRollout().Steps = append(in.GetRollout().Steps, &intentv1.Step{Change: &intentv1.Step_Upgrade{
		Upgrade: &intentv1.Upgrade{Agent: "db"},
	}})
	id := s.accepted(topology.VerbRollout, in).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	undoing := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{
		Rollout: &intentv1.Rollout{UndoOf: id, Strategy: &rolloutv1.Strategy{}},
	}}).Id
	web := s.wantsOnAll(1, "1.0.0")[0]
	s.append(worked(web, true)...)
	s.targetsAre(undoing, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_BROKEN: 1})
	bustest.Eventually(t, "what is queued for db is withdrawn", func() (withdrawn bool) {
		s.r.follower.Read(func() {
			i, _ := s.r.records.View.Instance(web.ServerId, "db")
			in, _ := s.r.records.View.Intent(i.GetIntentId())
			withdrawn = in.GetState() == intentv1.State_STATE_WITHDRAWN
		})
		return withdrawn
	})
}

// converged returns how many instances of an agent are as wanted. It must run inside Read.
func (s *site) converged(agent string) (n int) {
	for i := range s.r.records.View.InstancesOfAgent(agent) {
		if i.State == instancev1.State_STATE_CONVERGED {
			n++
		}
	}
	return n
}

// The view keeps the newest 10,000 intents, and what an older one queued must not begin either.
func TestAPauseWithdrawsAnIntentThatTheViewDoesNotKeep(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{})).Id
	due := s.wantsOnAll(2, "1.1.0")
	var newer []ledger.Draft
	for range 10_001 {
		newer = append(newer, fact(ledger.Intent, ident.New(), &intentv1.Refused{}))
	}
	for part := range slices.Chunk(newer, topology.MaxBatch) {
		s.append(part...)
	}
	s.r.follower.Read(func() {
		if _, kept := s.r.records.View.Intent(due[0].IntentId); kept {
			t.Fatal("the view keeps the intent")
		}
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	withdrawn := func() (n int) {
		for _, f := range s.facts(ledger.Intent, due[0].IntentId) {
			if _, is := f.Body.(*intentv1.Withdrawn); is {
				n++
			}
		}
		return n
	}
	bustest.Eventually(t, "its intent is withdrawn", func() bool { return withdrawn() > 0 })
	s.cancel(due)
	s.targetsAre(id, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_PENDING: 2})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if n := withdrawn(); n != 1 {
		t.Errorf("withdrawn %d times; want once", n)
	}
}

// What the pause withdraws is not wanted again yet when the undo goes on, and nothing may be decided on it.
func TestAnUndoAfterAHaltThatIsPausedAndResumedAtOnceTakesEveryServerBack(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	strategy := &rolloutv1.Strategy{MaxBroken: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}}
	id := s.accepted(topology.VerbRollout, inOneWave(strategy)).Id
	due := s.wantsOnAll(4, "1.1.0")
	for n, i := range due {
		s.append(worked(i, n > 1)...)
	}
	s.eventually("the rollout halts", nil, s.is(id, rolloutv1.State_STATE_HALTED))
	s.eventually("its broken servers are taken back", nil, func() bool {
		return s.converged("web") == 4 && s.r.records.View.CountUnrestored(id) == 0
	})
	undoing := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{
		Rollout: &intentv1.Rollout{UndoOf: id, Strategy: &rolloutv1.Strategy{}},
	}}).Id
	s.targetsAre(undoing, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_REACHED: 2})
	var back []*instancev1.Instance
	for _, i := range s.wantsOnAll(4, "1.0.0") {
		if slices.ContainsFunc(due[:2], func(x *instancev1.Instance) bool { return x.ServerId == i.ServerId }) {
			back = append(back, i)
		}
	}
	s.control(undoing, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	s.untilWithdrawn(back)
	s.control(undoing, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.cancel(back)
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	s.targetsAre(undoing, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_SUCCEEDED: 2})
	if have := s.versions(); have["1.0.0"] != 4 {
		t.Errorf("versions %v; want 1.0.0 everywhere", have)
	}
}
