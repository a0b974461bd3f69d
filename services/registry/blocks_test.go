package registry

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func (s *site) blocks() []*blockv1.Block {
	s.t.Helper()
	return must[*registryv1.ListRecordsResponse](s, "ListRecords", record.List(ledger.Block)).Blocks
}

func upWeb(version string, on *intentv1.Selector) *intentv1.Intent {
	up := &intentv1.Upgrade{Agent: "web", On: on}
	if version != "" {
		up.Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	}
	return &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
}

func TestABuildThatHaltsARolloutIsBlockedAndAnUndoMayGoBackToWhatRan(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	two := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: 2}} // one server alone blocks no build
	most := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 2}}  // both at once
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{
		MaxBroken: most, Stages: []*rolloutv1.Stage{two},
	})).Id
	everywhere := func(string) bool { return true }
	s.eventually("it halts and the build is blocked", everywhere, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && s.r.records.View.BlockCount() == 1
	})
	b := s.blocks()[0]
	if b.RolloutId != id || b.Failed != 2 || !strings.Contains(b.Reason, id) {
		t.Errorf("blocked %v", b)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.waits(id, "an approval of wave 2") // no server of the first wave succeeded
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("it halts again, because the build is blocked", everywhere, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && r.GetReason().GetCode() == code.Blocked
	})
	again := &registryv1.ReplayRolloutRequest{RolloutId: id}
	replayed := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", again)
	if replayed.Same != replayed.Recorded {
		t.Errorf("the replay differs: %v", replayed)
	}
	_, err := bus.Call[*registryv1.DeleteRecordResponse](bus.WithNote(t.Context(), "fixed"), s.ops, ledger.Registry,
		methods.ByName("DeleteRecord"), record.Delete(ledger.Block, b.Id, 0))
	if err != nil {
		t.Fatal(err)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))

	old := must[*registryv1.AddBlocksResponse](s, "AddBlocks", &registryv1.AddBlocksRequest{
		Agent: "web", Version: "1.0.0", Reason: "it leaks",
	}).Blocks
	if len(old) != 1 || old[0].SetBy == ledger.Registry {
		t.Fatalf("by hand: %v", old)
	}
	newer := "" // and not one of those on which 1.1.0 failed, which has 1.0.0 again
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.Observed.GetVersion() == "1.1.0" {
				newer = i.ServerId
			}
		}
	})
	on := &intentv1.Selector{Servers: []string{newer}}
	down := s.outcome(s.publish(topology.VerbUpgrade, upWeb("1.0.0", on)))
	if down.Refusal.GetCode() != code.Blocked {
		t.Errorf("a downgrade to it: %v", down.Refusal)
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo).Id
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] < 11 {
		t.Errorf("versions %v", have)
	}
}
