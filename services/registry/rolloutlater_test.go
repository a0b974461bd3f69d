package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// upTo is an upgrade of web on one server.
func upTo(version, server string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "web", On: &intentv1.Selector{Servers: []string{server}},
		Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}},
	}}}
}

// canaried starts a rollout of web 1.1.0, and of db where that has a newer image, of which the canary has passed. The
// other waves wait for an approval. It returns the servers that the rollout has not reached.
func (s *site) canaried(in *intentv1.Intent) (id string, pending []string) {
	s.t.Helper()
	in.GetRollout().Strategy.Approve = true
	id = s.accepted(topology.VerbRollout, in).Id
	s.eventually("the canary passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	s.r.follower.Read(func() {
		for t := range s.r.records.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_PENDING) {
			pending = append(pending, t.ServerId)
		}
	})
	return id, pending
}

// finish approves the two waves after the canary, and waits until the rollout succeeds.
func (s *site) finish(id string) {
	s.t.Helper()
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("the second wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[1].PassedAt != nil
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
}

// versionOf returns the version of an agent that is wanted on a server.
func (s *site) versionOf(server, agent string) string {
	v, _ := s.wantedVersion(server, agent)
	return v
}

func TestWhatWasAskedForAfterThePlanOfARolloutWins(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 8)
	id, pending := s.canaried(waves(&rolloutv1.Strategy{}))
	s.image("web", "0.9.0", "release")
	byHand, undone, lane := pending[0], pending[1], pending[2]

	s.accepted(topology.VerbUpgrade, upTo("0.9.0", byHand))
	mistake := s.accepted(topology.VerbUpgrade, upTo("0.9.0", undone)).Id
	emergency := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Upgrade{Upgrade: upTo("0.9.0", lane).GetUpgrade()}}},
		On:    &intentv1.Selector{Servers: []string{lane}}, Strategy: &rolloutv1.Strategy{Emergency: true},
	}}}
	beside := s.accepted(topology.VerbRollout, emergency).Id
	s.eventually("the emergency rollout succeeds", nil, s.is(beside, rolloutv1.State_STATE_SUCCEEDED))
	s.accepted(topology.VerbUndo, &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: mistake}}})

	s.finish(id)
	for _, server := range []string{byHand, lane} {
		var target *rolloutv1.Target
		s.r.follower.Read(func() { target, _ = s.r.records.View.Target(id, server) })
		if v := s.versionOf(server, "web"); v != "0.9.0" || target.Reason.GetCode() != code.AskedLater ||
			target.State != rolloutv1.TargetState_TARGET_STATE_LEFT_OUT {
			t.Errorf("web %s, %s for %v; want 0.9.0, left out for %s", v, target.State, target.Reason, code.AskedLater)
		}
	}
	if v := s.versionOf(undone, "web"); v != "1.1.0" {
		t.Errorf("web %s where what was asked for later was undone; want 1.1.0", v)
	}
	if have := s.versions(); have["1.1.0"] != 6 {
		t.Errorf("versions %v; want 1.1.0 on the other 6", have)
	}
	replayed := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout",
		&registryv1.ReplayRolloutRequest{RolloutId: id})
	if replayed.Same != replayed.Recorded {
		t.Errorf("the replay differs: %v", replayed)
	}
}

// Web and db of a server are changed in one rollout: the server is left as it is, and does not count as broken.
func TestAServerOfWhichOneAgentWasAskedForLaterIsLeftOutAsAWhole(t *testing.T) {
	t.Parallel()
	s := paired(t, 5)
	s.image("web", "0.9.0", "release")
	id, pending := s.canaried(both())
	s.accepted(topology.VerbUpgrade, upTo("0.9.0", pending[0]))
	s.finish(id)
	var target *rolloutv1.Target
	s.r.follower.Read(func() { target, _ = s.r.records.View.Target(id, pending[0]) })
	if web, db := s.versionOf(pending[0], "web"), s.versionOf(pending[0], "db"); web != "0.9.0" || db != "1.0.0" ||
		target.State != rolloutv1.TargetState_TARGET_STATE_LEFT_OUT {
		t.Errorf("web %s, db %s, %s; want 0.9.0, 1.0.0, left out", web, db, target.State)
	}
}
