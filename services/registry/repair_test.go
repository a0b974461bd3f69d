package registry

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

// drifted is a site with so many servers in environment prod, which reports drift, that run web 1.0.0; on all but the
// first one, something changed it.
func drifted(t *testing.T, servers int) (s *site, ids []string) {
	s = rolledOut(t, servers)
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{
			Name: "prod", Drift: environmentv1.DriftPolicy_DRIFT_POLICY_REPORT, DriftBrake: 100,
		},
	})
	var drafts []ledger.Draft
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			ids = append(ids, i.ServerId)
			drafts = append(drafts, fact(ledger.Server, i.ServerId, &serverv1.Changed{Environment: "prod"}))
		}
	})
	slices.Sort(ids)
	s.append(drafts...)
	s.damage(ids[1:])
	return s, ids
}

// damage has servers report that something changed web.
func (s *site) damage(ids []string) {
	var drafts []ledger.Draft
	s.r.follower.Read(func() {
		for _, id := range ids {
			i, _ := s.r.records.View.Instance(id, "web")
			drafts = append(drafts, damagedAt(proto.CloneOf(i)))
		}
	})
	s.append(drafts...)
}

func damagedAt(i *instancev1.Instance) ledger.Draft {
	return fact(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation, Image: i.Wanted, Code: code.Damaged,
		Health: instancev1.Health_HEALTH_BAD, ConfigurationDigest: i.Configuration.GetDigest(),
	})
}

func (s *site) heal() *registryv1.ChangeEnvironmentRequest {
	return &registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{
		Name: "prod", Drift: environmentv1.DriftPolicy_DRIFT_POLICY_HEAL, DriftBrake: 100,
	}}
}

// repair is the plan of a repair of every agent in prod, in waves of one canary, a quarter and the rest.
func (s *site) repair() *registryv1.PlanRolloutResponse {
	s.t.Helper()
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Steps, in.GetRollout().On = nil, &intentv1.Selector{Environment: "prod"}
	return must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{
		Intent: in, EveryAgent: true, Repair: true,
	})
}

func TestAPolicyThatWouldHealManyServersHoldsOnceARolloutRepairedThem(t *testing.T) {
	t.Parallel()
	const most = environments.MostAtOnce
	s, ids := drifted(t, most+2)
	if have := s.code("ChangeEnvironment", s.heal()); have != code.TooWide {
		t.Fatalf("to heal %d servers: %s; want %s", most+1, have, code.TooWide)
	}
	if have := s.try("ChangeEnvironment", s.heal()); !strings.HasPrefix(have,
		"garrison rollout start --repair --all --on env=prod --canaries 3 --waves 10%,50% --soak 5m, and then") {
		t.Errorf("the refusal suggests %q", have)
	}
	plan := s.repair()
	if plan.Refusal != nil || !slices.Equal(plan.Waves, []uint32{1, 25, 75}) || plan.Owed != 0 ||
		plan.Title != "repair web" {
		t.Fatalf("planned %v", plan)
	}
	id := s.accepted(topology.VerbRollout, plan.Intent).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] != most+2 {
		t.Errorf("versions %v; a repair changes none", have)
	}
	if n := s.count(ledger.Instance, ledger.Key(ids[0], "web"), "wanted"); n != 1 {
		t.Errorf("the server that did not drift was changed %d times", n-1)
	}
	if have := s.code("ChangeEnvironment", s.heal()); have != "none" {
		t.Errorf("to heal after the repair: %s", have)
	}
	if again := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
			On: &intentv1.Selector{Environment: "prod"}, Steps: []*intentv1.Step{{Change: &intentv1.Step_Configure{
				Configure: &intentv1.Configure{Agent: "web", Repair: true},
			}}},
		}}},
	}); again.GetRefusal().GetCode() != code.NothingLeft {
		t.Errorf("a repair where nothing drifts: %v", again.GetRefusal())
	}
}

// What changes the agent again after its repair halts the rollout in its first wave.
func TestARepairThatDoesNotLastHaltsItsRollout(t *testing.T) {
	t.Parallel()
	s, ids := drifted(t, 12)
	id := s.accepted(topology.VerbRollout, s.repair().Intent).Id
	var canary *instancev1.Instance
	bustest.Eventually(t, "the canary is released", func() bool {
		s.r.follower.Read(func() {
			for i := range s.r.records.View.InstancesOfAgent("web") {
				if i.Generation > 1 {
					canary = proto.CloneOf(i)
				}
			}
		})
		return canary != nil
	})
	repaired := worked(canary, false)
	s.append(append(repaired[:len(repaired)-1], damagedAt(canary))...)
	bustest.Eventually(t, "the rollout halts", func() (halted bool) {
		s.r.follower.Read(func() { halted = s.is(id, rolloutv1.State_STATE_HALTED)() })
		return halted
	})
	if have := s.rollout(id).Reason.GetCode(); have != code.TooManyBroken {
		t.Errorf("halted for %s", have)
	}
	for _, other := range ids {
		if n := s.count(ledger.Instance, ledger.Key(other, "web"), "wanted"); n > 1 && other != canary.ServerId {
			t.Errorf("server %s was changed beside the canary", other)
		}
	}
	if have := s.blocks(); len(have) > 0 {
		t.Errorf("blocked %v; nothing new was brought", have)
	}
}
