package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// decided returns what a registry decides about a rollout of web now.
func (s *site) decided(id string) (d rolling.Decision) {
	s.r.follower.Read(func() {
		d = rolling.Decide(s.r.records.View, intent.Ask{
			ID: id, Actor: "ann", Verb: topology.VerbRollout, At: s.r.records.Now(),
			Intent: waves(&rolloutv1.Strategy{}),
		})
	})
	return d
}

func TestOfTwoOverlappingPlansOnOneViewOneBegins(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	i := s.r.intents
	one, other := ident.New(), ident.New()
	first, second := s.decided(one), s.decided(other)
	if first.Refusal != nil || second.Refusal != nil {
		t.Fatalf("refused: %v, %v", first.Refusal, second.Refusal)
	}
	if err := i.RecordRollout(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := i.RecordRollout(t.Context(), second); !fault.Is(err, fault.Conflict) {
		t.Errorf("the second plan: %v; want a conflict", err)
	}
	bustest.Eventually(t, "the first plan is folded", func() bool { return s.decided(other).Refusal != nil })
	if d := s.decided(other); d.Refusal.GetCode() != code.RolloutOverlaps {
		t.Errorf("planned again: %v; want %s", d.Refusal, code.RolloutOverlaps)
	}
}
