package registry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// ring is a stage for the servers with values of the label ring.
func ring(values ...string) *rolloutv1.Stage {
	return meeting(&rolloutv1.Match{
		Field: "label.ring", Relation: rolloutv1.Relation_RELATION_IN, Values: values,
	})
}

func meeting(m *rolloutv1.Match) *rolloutv1.Stage {
	return &rolloutv1.Stage{Of: &rolloutv1.Group{Where: []*rolloutv1.Match{m}}}
}

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

// ringed is a site of six servers, of which two have ring=a, two ring=b and two no ring; their ids in that order.
func ringed(t *testing.T) (*site, []string) {
	s := rolledOut(t, 6)
	ids := s.serverIDs()
	for n, value := range []string{"a", "a", "b", "b"} {
		s.append(fact(ledger.Server, ids[n], &serverv1.Changed{Labels: map[string]string{"ring": value}}))
	}
	return s, ids
}

// staged is a rollout with these stages.
func staged(stages ...*rolloutv1.Stage) *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Strategy.Stages = stages
	return in
}

func TestWavesFollowTheConditionsOfStagesAndThePlanIsFixed(t *testing.T) {
	t.Parallel()
	s, ids := ringed(t)
	in := staged(ring("a"), ring("b", "a"))
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
	if diff := cmp.Diff([]uint32{2, 2, 2}, plan.Waves); diff != "" || plan.Refusal != nil {
		t.Fatalf("%v; %s", plan.Refusal, diff)
	}
	wave, because := map[string]uint32{}, map[string]string{}
	for _, x := range plan.Targets {
		wave[x.Target.ServerId], because[x.Target.ServerId] = x.Target.Wave, x.Target.Because
	}
	for n, want := range []uint32{1, 1, 2, 2, 3, 3} {
		if have := wave[ids[n]]; have != want {
			t.Errorf("server %d is in wave %d, want %d", n, have, want)
		}
	}
	if because[ids[0]] != "ring=a" || because[ids[2]] != "ring in (b,a)" || because[ids[4]] != "the rest" {
		t.Errorf("because %q", because)
	}
	in.GetRollout().Strategy.Approve = true
	id := s.accepted(topology.VerbRollout, in).Id
	s.append(fact(ledger.Server, ids[4], &serverv1.Changed{Labels: map[string]string{"ring": "b"}}))
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("the second wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[1].PassedAt != nil
	})
	s.r.follower.Read(func() {
		x, _ := s.r.records.View.Target(id, ids[4])
		if x.State != rolloutv1.TargetState_TARGET_STATE_PENDING || x.Wave != 3 {
			t.Errorf("a server that came to the second stage's label after the plan: %v", x)
		}
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("it succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	if resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); resp.Same != resp.Recorded {
		t.Errorf("replayed %v", resp)
	}
}

func TestAForecastHasTheStagesOfThePlan(t *testing.T) {
	t.Parallel()
	s, _ := ringed(t)
	in := staged(ring("a"))
	in.GetRollout().Strategy.Soak = durationpb.New(time.Hour)
	q := &registryv1.ForecastRolloutRequest{Runs: 3, BrokenPermille: 1000, Intent: in}
	have := must[*registryv1.ForecastRolloutResponse](s, "ForecastRollout", q)
	if have.Halted != 3 || have.Touched_90 != 2 {
		t.Errorf("a bad version reaches %d servers of a first wave of 2: %v", have.Touched_90, have)
	}
}

func TestAStageThatWouldHaveNoServerIsRefused(t *testing.T) {
	t.Parallel()
	s, ids := ringed(t)
	s.append(fact(ledger.Server, ids[2], &serverv1.Offline{}), fact(ledger.Server, ids[3], &serverv1.Offline{}))
	const isIn = rolloutv1.Relation_RELATION_IN
	of := func(field string, relation rolloutv1.Relation) *rolloutv1.Match {
		return &rolloutv1.Match{Field: field, Relation: relation, Values: []string{"a"}}
	}
	for name, c := range map[string]struct {
		stages []*rolloutv1.Stage
		on     []string
		code   string
		want   string
	}{
		"no server at all": {
			stages: []*rolloutv1.Stage{ring("aa")}, code: code.NoServers, want: "ring=aa",
		},
		"none of its own": {
			stages: []*rolloutv1.Stage{ring("a")}, on: ids[4:], code: code.EmptyWave, want: "meets ring=a",
		},
		"all are offline": {
			stages: []*rolloutv1.Stage{ring("b")}, code: code.EmptyWave, want: "2, all offline",
		},
		"all are taken": {
			stages: []*rolloutv1.Stage{ring("a"), ring("a")}, code: code.EmptyWave, want: "earlier stages",
		},
		"no field": {
			stages: []*rolloutv1.Stage{meeting(of("colour", isIn))}, code: code.BadSelector, want: "colour",
		},
		"no environment": {
			stages: []*rolloutv1.Stage{meeting(of("env", isIn))}, code: code.UnknownEnvironment, want: `"a"`,
		},
		"no relation": {
			stages: []*rolloutv1.Stage{meeting(of("os", 0))}, code: code.BadSelector, want: "operator",
		},
		"an order of no use": {
			stages: []*rolloutv1.Stage{meeting(of("os", rolloutv1.Relation_RELATION_LESS))},
			code:   code.BadSelector, want: "no order",
		},
		"no conditions": {
			stages: []*rolloutv1.Stage{{Of: &rolloutv1.Group{}}}, code: code.BadStrategy, want: "0 conditions",
		},
	} {
		in := staged(c.stages...)
		if c.on != nil {
			in.GetRollout().On = &intentv1.Selector{Servers: c.on}
		}
		plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
		if r := plan.GetRefusal(); r.GetCode() != c.code || !strings.Contains(r.GetMessage(), c.want) {
			t.Errorf("%s: %v, want %s with %q", name, r, c.code, c.want)
		}
	}
}

// The undo of a rollout has its stages, whose servers may be fewer by then.
func TestAnUndoGoesWithoutTheStagesThatHaveNoServer(t *testing.T) {
	t.Parallel()
	s, ids := ringed(t)
	id := s.accepted(topology.VerbRollout, staged(ring("a"), ring("b"))).Id
	s.eventually("it succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	for _, server := range ids[:2] {
		s.append(fact(ledger.Server, server, &serverv1.Changed{}))
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: undo})
	if diff := cmp.Diff([]uint32{2, 4}, plan.Waves); diff != "" || plan.Refusal != nil ||
		!slices.Equal(plan.Strategy.Stages[0].Of.Where[0].Values, []string{"b"}) {
		t.Errorf("%v: %s; %v", plan.Refusal, diff, plan.Strategy.GetStages())
	}
}
