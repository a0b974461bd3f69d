package registry

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// frozen puts all servers into the environment prod, and freezes it for a day.
func (s *site) frozen() {
	s.t.Helper()
	e := &environmentv1.Environment{Name: "prod", Freezes: []*environmentv1.Freeze{{
		Until: timestamppb.New(time.Now().Add(24 * time.Hour)), Reason: "end of the year",
	}}}
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment",
		&registryv1.CreateEnvironmentRequest{Environment: e})
	for _, id := range s.serverIDs() {
		s.append(fact(ledger.Server, id, &serverv1.Changed{Environment: "prod"}))
	}
}

func (s *site) thawed() {
	s.t.Helper()
	must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment",
		&registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{Name: "prod"}})
}

func TestARolloutWaitsForTheEndOfAFreeze(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	s.frozen()
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{})})
	if plan.Closed != 4 || plan.ClosedUntil == nil || !strings.Contains(plan.ClosedBecause, "end of the year") {
		t.Errorf("planned %v", plan)
	}
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{})).Id
	s.eventually("the first wave is open", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return len(r.GetWaves()) > 0 && r.Waves[0].OpenedAt != nil
	})
	resp := must[*registryv1.GetRolloutResponse](s, "GetRollout", &registryv1.GetRolloutRequest{RolloutId: id})
	if !strings.Contains(resp.WaitsFor, "frozen") || resp.NextAt == nil || s.versions()["1.1.0"] != 0 {
		t.Errorf("waits for %q until %v; versions %v", resp.WaitsFor, resp.NextAt, s.versions())
	}
	s.thawed()
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
}

func TestAServerNamesWhatClosesItsEnvironment(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 1)
	q := &registryv1.GetServerRequest{Server: s.serverIDs()[0]}
	if have := must[*registryv1.GetServerResponse](s, "GetServer", q).Closed; have != nil {
		t.Errorf("without an environment: %v", have)
	}
	s.frozen()
	closed := func() *registryv1.Closed { return must[*registryv1.GetServerResponse](s, "GetServer", q).Closed }
	s.eventually("the server is in the environment", nil, func() bool { return closed() != nil })
	if have := closed(); have.Environment != "prod" || !strings.Contains(have.Reason, "end of the year") ||
		!have.OpensAt.AsTime().After(time.Now()) {
		t.Errorf("frozen: %v", have)
	}
	s.thawed()
	if have := closed(); have != nil {
		t.Errorf("thawed: %v", have)
	}
}
