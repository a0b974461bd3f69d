package registry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

func TestAChangeOfManyServersIsRefusedWithoutWavesUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	s, ids := members(t, environments.MostAtOnce+1)
	everywhere := &intentv1.Selector{Environment: "prod"}
	wide := &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: "web", On: everywhere}}}
	refused := s.outcome(s.publish(topology.VerbInstall, wide)).GetRefusal()
	if refused.GetCode() != code.TooWide ||
		!strings.Contains(refused.GetTry(), "garrison rollout start --install web --on env=prod --canaries 3") {
		t.Fatalf("an install on %d servers: %v; want %s with the rollout", len(ids), refused, code.TooWide)
	}
	plan := must[*registryv1.PlanIntentResponse](s, "PlanIntent", &registryv1.PlanIntentRequest{Intent: wide})
	if have := plan.GetPlans()[0].GetRefusal().GetCode(); have != code.TooWide {
		t.Errorf("its plan: %q; want %s", have, code.TooWide)
	}
	wide.AtOnce = true
	s.accepted(topology.VerbInstall, wide)
	for verb, in := range map[string]*intentv1.Intent{
		topology.VerbConfigure: {Ask: &intentv1.Intent_Configure{Configure: &intentv1.Configure{
			Agent: "web", On: everywhere, Set: map[string]string{"a": "b"},
		}}},
		topology.VerbRemove: {Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "web", On: everywhere}}},
	} {
		if have := s.outcome(s.publish(verb, in)).GetRefusal(); have.GetCode() != code.TooWide {
			t.Errorf("%s: %v; want %s", verb, have, code.TooWide)
		}
	}
	fewer := &intentv1.Selector{Servers: ids[:environments.MostAtOnce]}
	s.accepted(topology.VerbRemove, &intentv1.Intent{Ask: &intentv1.Intent_Remove{
		Remove: &intentv1.Remove{Agent: "web", On: fewer},
	}})
}

func TestADecommissionOfManyServersIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	s, ids := members(t, environments.MostAtOnce+1)
	everywhere := &intentv1.Selector{Environment: "prod"}
	for name, q := range map[string]*intentv1.Decommission{
		"decommission": {On: everywhere}, "by force": {On: everywhere, Lost: true, Force: true},
	} {
		in := &intentv1.Intent{Ask: &intentv1.Intent_Decommission{Decommission: q}}
		why := s.outcome(s.publish(topology.VerbDecommission, in)).GetRefusal()
		const try = "garrison server decommission --on env=prod --on LABEL=VALUE, "
		if why.GetCode() != code.TooWide || !strings.HasPrefix(why.GetTry(), try) {
			t.Errorf("%s of %d servers: %v; want %s", name, len(ids), why, code.TooWide)
		}
		plan := must[*registryv1.PlanIntentResponse](s, "PlanIntent", &registryv1.PlanIntentRequest{Intent: in})
		if have := plan.GetPlans()[0].GetRefusal().GetCode(); have != code.TooWide {
			t.Errorf("the plan of %s: %q; want %s", name, have, code.TooWide)
		}
	}
	if is := s.get(ids[0]); is.Life != serverv1.Life_LIFE_ALIVE {
		t.Errorf("a server after the refusals: %v", is.Life)
	}
	q := &intentv1.Decommission{On: &intentv1.Selector{Servers: ids[1:]}}
	in := &intentv1.Intent{Ask: &intentv1.Intent_Decommission{Decommission: q}, DryRun: true}
	if r := s.accepted(topology.VerbDecommission, in); r.Changed != environments.MostAtOnce {
		t.Errorf("a dry run of fewer: %v", r)
	}
	q.On, in.AtOnce, in.DryRun = everywhere, true, false
	if r := s.accepted(topology.VerbDecommission, in); int(r.Changed) != len(ids) {
		t.Errorf("at once: %v", r)
	}
	s.untilLife(ids[0], serverv1.Life_LIFE_DEAD)
}

// try returns what a refused request is to do instead.
func (s *site) try(method protoreflect.Name, q proto.Message) string {
	s.t.Helper()
	_, err := ask[*emptypb.Empty](s, method, q) // an answer would decode as an empty one
	if err == nil {
		s.t.Fatalf("%s was not refused", method)
	}
	return fault.RefusalOf(err).GetTry()
}
