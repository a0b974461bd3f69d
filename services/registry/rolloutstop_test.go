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
