package registry

import (
	"fmt"
	"strings"
	"testing"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

// The way back of a change that reached many servers at once goes through waves too.
func TestAnUndoOfAnIntentThatReachedManyServersGoesInWaves(t *testing.T) {
	t.Parallel()
	s, ids := members(t, environments.MostAtOnce+1)
	wide := install("web", &intentv1.Selector{Environment: "prod"})
	wide.AtOnce = true
	id := s.accepted(topology.VerbInstall, wide).Id
	s.untilInstalled("web", ids...)
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id}}}
	why := s.outcome(s.publish(topology.VerbUndo, undo)).GetRefusal()
	if why.GetCode() != code.TooWide || !strings.HasPrefix(why.GetTry(), "garrison rollout undo "+id) {
		t.Fatalf("an undo on %d servers: %v; want %s with the rollout", len(ids), why, code.TooWide)
	}
	in := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
	if plan.Refusal != nil || fmt.Sprint(plan.Waves) != "[3 10 50 38]" || plan.Title != "undo of install web" {
		t.Fatalf("the rollout: %v, %q, waves %v; want it in waves", plan.Refusal, plan.Title, plan.Waves)
	}
	began := s.accepted(topology.VerbRollout, plan.Intent).Id
	s.eventually("the first wave is taken back", nil, func() bool { return s.wanting("web") == len(ids)-3 })
	r := must[*registryv1.GetRolloutResponse](s, "GetRollout", &registryv1.GetRolloutRequest{RolloutId: began}).Rollout
	if r.Undoes != id || r.State != rolloutv1.State_STATE_RUNNING || r.Waves[1].OpenedAt != nil {
		t.Errorf("after the first wave began: %v", r)
	}
	undo.AtOnce = true
	s.accepted(topology.VerbUndo, undo)
	if have := s.with("web"); have > 0 {
		t.Errorf("after an undo at once %d servers have the agent; want none", have)
	}
}

// Where no server has the labels any more that the stages were about, an undo has the stages of one without any.
func TestAnUndoWhoseStagesAreAboutNoServerGoesInWaves(t *testing.T) {
	t.Parallel()
	s, ids := members(t, environments.MostAtOnce+1)
	label := func(labels map[string]string) (drafts []ledger.Draft) {
		for _, id := range ids {
			drafts = append(drafts, fact(ledger.Server, id, &serverv1.Changed{Labels: labels}))
		}
		return drafts
	}
	s.append(label(map[string]string{"ring": "a"})...)
	in := staged(ring("a"))
	in.GetRollout().Steps = []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}}
	id := s.accepted(topology.VerbRollout, in).Id
	s.untilInstalled("web", ids...)
	s.append(label(nil)...)
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: undo})
	if plan.Refusal != nil || fmt.Sprint(plan.Waves) != "[3 10 50 38]" {
		t.Errorf("the undo: %v, waves %v; want it in waves", plan.Refusal, plan.Waves)
	}
}

func TestAWideUndoOfWhatIsNoRolloutAndNoIntentIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := members(t, 1)
	in := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		UndoOf: "00000000-0000-4000-8000-000000000000",
	}}}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
	if plan.Refusal.GetCode() != code.UnknownRollout {
		t.Errorf("refused with %v; want %s", plan.Refusal, code.UnknownRollout)
	}
}
