package registry

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// sharing begins rollouts of web and db to the same servers, each with a budget by which all but one of them work.
func sharing(t *testing.T, servers uint32) (s *site, ids []string) {
	s = rolledOut(t, int(servers))
	s.agent("db")
	s.image("db", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("db", &intentv1.Selector{All: true}))
	s.eventually("db runs", nil, func() bool { return s.converged("db") == int(servers) })
	s.image("db", "1.1.0", "release")
	for _, agent := range []string{"web", "db"} {
		ids = append(ids, s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{
			Rollout: &intentv1.Rollout{
				Steps: []*intentv1.Step{{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent}}}},
				On:    &intentv1.Selector{All: true},
				Strategy: &rolloutv1.Strategy{Keep: []*rolloutv1.Keep{{
					Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: servers - 1}},
				}}},
			},
		}}).Id)
	}
	return s, ids
}

// Two registries may decide on one view.
func TestOfTwoReleasesUnderSharedKeepBudgetsThatAreDecidedOnOneViewOneIsRecorded(t *testing.T) {
	t.Parallel()
	s, ids := sharing(t, 4)
	for _, id := range ids { // so that nothing is recorded between the decisions and their records
		s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	}
	s.eventually("no server is being changed", nil, func() bool {
		return s.rests(ids[0], 4) && s.rests(ids[1], 4)
	})
	var decided [][]ledger.Draft
	s.r.follower.Read(func() {
		servers := slices.Sorted(slices.Values(s.pending(ids[1])))
		for n, id := range ids {
			r, _ := s.r.records.View.Rollout(id)
			in, _ := s.r.records.View.Intent(id)
			run := rolling.Run{
				Rollout: r, Ask: in.Intent.GetRollout(), At: s.r.records.Now(),
				Under: rolling.Alone(s.r.records.View, r),
			}
			free := slices.DeleteFunc(slices.Clone(servers), func(server string) bool {
				return !slices.Contains(s.pending(id), server)
			})
			drafts, taken := rolling.Release(s.r.records.View, run, rollout.Decision{Wave: 1, Release: free[n : n+1]})
			body := &rolloutv1.Released{Wave: 1, ServerIds: taken}
			decided = append(decided, append(drafts, ledger.OnKey(fact(ledger.Rollout, id, body).Fact,
				s.r.records.View.Sequence(ledger.Rollout, id))))
		}
	})
	if err := s.r.intents.RecordRollout(t.Context(), rolling.Decision{Last: decided[0]}); err != nil {
		t.Fatal(err)
	}
	err := s.r.intents.RecordRollout(t.Context(), rolling.Decision{Last: decided[1]})
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("the second release: %v; want a conflict", err)
	}
}

// rests reports whether each of so many servers is done, or its turn has not come.
func (s *site) rests(id string, servers uint32) bool {
	r, _ := s.r.records.View.Rollout(id)
	n := uint32(0)
	for _, w := range r.GetWaves() {
		n += w.Counts[uint32(rolloutv1.TargetState_TARGET_STATE_PENDING)]
		n += w.Counts[uint32(rolloutv1.TargetState_TARGET_STATE_REACHED)]
	}
	return n == servers
}

// pending returns the servers of a rollout whose turn has not come. It must run inside Read.
func (s *site) pending(id string) (servers []string) {
	for t := range s.r.records.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_PENDING) {
		servers = append(servers, t.ServerId)
	}
	return servers
}
