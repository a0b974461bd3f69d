package registry

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// undoAgain is the undo of a rollout, one server after the other.
func undoAgain(id string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		UndoOf: id, Strategy: &rolloutv1.Strategy{
			Approve: true, Stages: []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Servers{Servers: 1}}},
		},
	}}}
}

func TestAnUndoThatWasAbortedCanBeRepeated(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{})).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))

	first := s.accepted(topology.VerbRollout, undoAgain(id)).Id
	s.eventually("its first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(first)
		return r.GetWaves()[0].PassedAt != nil
	})
	early := s.outcome(s.publish(topology.VerbRollout, undoAgain(id))).Refusal
	if early.GetCode() != code.NotUndoable || !strings.Contains(early.Message, "is being undone by rollout "+first) {
		t.Errorf("a second undo beside the first one: %v", early)
	}
	s.control(first, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)

	in := undoAgain(id)
	in.GetRollout().Strategy = &rolloutv1.Strategy{}
	again := s.accepted(topology.VerbRollout, in).Id
	if r := s.rollout(again); r.Waves[0].Servers != 3 {
		t.Errorf("the second undo has waves %v; want the three servers that the first one did not reach", r.Waves)
	}
	s.eventually("the second undo succeeds", nil, s.is(again, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] != 4 {
		t.Errorf("versions %v; want 1.0.0 everywhere", have)
	}
	if r := s.rollout(id); r.State != rolloutv1.State_STATE_UNDONE || r.UndoneBy != again {
		t.Errorf("the rollout is %s by %s; want it undone by %s", r.State, r.UndoneBy, again)
	}
	done := s.outcome(s.publish(topology.VerbRollout, undoAgain(id))).Refusal
	if done.GetCode() != code.NotUndoable || !strings.Contains(done.Message, "was undone by rollout "+again) {
		t.Errorf("a third undo: %v; want %s", done, code.NotUndoable)
	}
}

// What the aborted undo queued is withdrawn, and belongs to the next undo even where that is not recorded yet.
func TestAnUndoTakesBackWhatTheOneBeforeHadQueuedWhenItWasAborted(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{})).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	in := undoAgain(id)
	in.GetRollout().Strategy = &rolloutv1.Strategy{}
	first := s.accepted(topology.VerbRollout, in).Id
	queued := s.wantsOnAll(2, "1.0.0")
	s.control(first, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
	again := s.accepted(topology.VerbRollout, in).Id
	if r := s.rollout(again); r.Waves[0].Servers != 2 {
		t.Errorf("the second undo has waves %v; want both servers", r.Waves)
	}
	s.cancelQueued(queued)
	s.eventually("the second undo succeeds", nil, s.is(again, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] != 2 {
		t.Errorf("versions %v; want 1.0.0 everywhere", have)
	}
}
