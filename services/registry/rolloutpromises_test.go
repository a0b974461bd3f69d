package registry

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// waits returns a condition of what a rollout waits for, outside Read.
func (s *site) waits(id, text string) {
	s.t.Helper()
	have := ""
	polltest.Eventually(s.t, "the rollout waits for "+text, func() bool {
		q := &registryv1.GetRolloutRequest{RolloutId: id}
		have = must[*registryv1.GetRolloutResponse](s, "GetRollout", q).WaitsFor
		return strings.Contains(have, text)
	})
}

func TestAPlanOfManyServersIsRecordedInPartsAndRunsAsOne(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const servers = 2050
	s.fleet(servers)
	s.comeOnline()
	on := &intentv1.Selector{All: true}
	q := &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}}, On: on,
		Strategy: &rolloutv1.Strategy{
			Approve: true, Stages: []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Servers{Servers: 1}}},
		},
	}
	id := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}}).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	r := s.rollout(id)
	if r.OfParts < 2 || r.Parts != r.OfParts || len(r.Waves) != 2 || r.Waves[1].Servers != servers-1 {
		t.Errorf("the rollout has %d of %d parts and the waves %v", r.Parts, r.OfParts, r.Waves)
	}
	if n := s.count(ledger.Rollout, id, "planned"); n != int(r.OfParts) {
		t.Errorf("%d parts are in the ledger; want %d", n, r.OfParts)
	}
	listed := 0
	for cursor := ""; ; {
		page := must[*registryv1.ListRolloutTargetsResponse](s, "ListRolloutTargets",
			&registryv1.ListRolloutTargetsRequest{RolloutId: id, Page: &apiv1.Page{Cursor: cursor}})
		listed += len(page.Targets)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if listed != servers {
		t.Errorf("%d servers are listed; want %d", listed, servers)
	}
}

func TestAnUndoThatIsRecordedInPartsPausesTheRunningRolloutFirst(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const servers, touched = 2060, 2050
	s.fleet(servers)
	s.comeOnline()
	soaks := &rolloutv1.Stage{
		Size: &rolloutv1.Stage_Servers{Servers: touched}, Soak: durationpb.New(time.Hour), // so it runs
	}
	q := &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}},
		On:    &intentv1.Selector{All: true}, Strategy: &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{soaks}},
	}
	id := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}}).Id
	s.eventually("the first wave is installed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].SettledAt != nil
	})
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo)
	have := names(s.facts(ledger.Rollout, id))
	if n := len(have); !slices.Equal(have[n-2:], []string{"paused", "undone"}) {
		t.Errorf("the last facts are %v; want a pause, and the undo", have[n-2:])
	}
	if r := s.rollout(undoing.Id); r.OfParts < 2 || r.Parts != r.OfParts {
		t.Errorf("the undo has %d of %d parts", r.Parts, r.OfParts)
	}
}

// A program does with the client what a person does with the commands.
func TestAProgramPlansStartsSteersAndUndoesARollout(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	c := client.New(s.ops, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := c.PlanRollout(ctx, &registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{Approve: true})}, 0)
	if err != nil || len(p.Targets) != 12 {
		t.Fatalf("planned %d servers: %v; want 12", len(p.GetTargets()), err)
	}
	id, err := c.StartRollout(ctx, p.Intent)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.PauseRollout(ctx, id, "lunch")
	if err != nil || r.State != rolloutv1.State_STATE_PAUSED {
		t.Fatalf("paused: %v, %v", r, err)
	}
	if r, err = c.ResumeRollout(ctx, id, ""); err != nil || r.State != rolloutv1.State_STATE_RUNNING {
		t.Fatalf("resumed: %v, %v", r, err)
	}
	s.eventually("the canary passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	if r, err = c.ApproveRollout(ctx, id, "seen"); err != nil || r.Waves[1].ApprovedBy == "" {
		t.Fatalf("approved: %v, %v", r, err)
	}
	if r, err = c.AbortRollout(ctx, id, "enough"); err != nil || r.State != rolloutv1.State_STATE_ABORTED {
		t.Fatalf("aborted: %v, %v", r, err)
	}
	looks := 0
	for at, err := range c.WatchRollout(ctx, id) {
		if looks++; err != nil || at.GetRollout().GetState() != rolloutv1.State_STATE_ABORTED {
			t.Fatalf("watched: %v, %v", at, err)
		}
	}
	if looks != 1 {
		t.Errorf("a rollout that ended was looked at %d times; want once", looks)
	}
	undo, err := c.UndoRollout(ctx, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the canary is back", nil, func() bool {
		r, _ := s.r.records.View.Rollout(undo)
		for n := range r.GetWaves() {
			if r.Waves[n].OpenedAt == nil && r.Waves[n].ApprovedBy == "" {
				return r.Waves[0].PassedAt != nil
			}
		}
		return r.GetState() == rolloutv1.State_STATE_SUCCEEDED
	})
	if _, err := c.StartRollout(ctx, install("web", on())); !fault.Is(err, fault.Invalid) {
		t.Errorf("an install as a rollout: %v; want it refused", err)
	}
	if _, err := c.PauseRollout(ctx, id, ""); fault.RefusalOf(err).GetCode() != code.RolloutNotFit {
		t.Errorf("a pause after the end: %v; want %s", err, code.RolloutNotFit)
	}
}
