package registry

import (
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// drift makes servers of an environment whose agent is damaged.
func (s *site) drift(environment string, servers int) {
	var drafts []ledger.Draft
	for range servers {
		id, image := ident.New(), &imagev1.Ref{Id: "image", Digest: []byte("d")}
		drafts = append(drafts,
			fact(ledger.Server, id, &serverv1.Invited{
				Name: "s" + id, Cell: "main", Environment: environment,
			}),
			fact(ledger.Server, id, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}}),
			fact(ledger.Server, id, &serverv1.Online{}),
			fact(ledger.Instance, ledger.Key(id, "web"), &instancev1.Wanted{
				InstanceId: ident.New(), Generation: 1, Image: image, IntentId: "i",
			}))
		w := drafts[len(drafts)-1].Body.(*instancev1.Wanted)
		drafts = append(drafts, fact(ledger.Instance, ledger.Key(id, "web"), &instancev1.Observed{
			InstanceId: w.InstanceId, Generation: 1, Image: image, Code: code.Damaged,
			Health: instancev1.Health_HEALTH_BAD,
		}))
	}
	s.append(drafts...)
}

// A policy that becomes to heal, and a brake that is lifted, let every executor of the environment heal at once.
func TestAPolicyThatWouldHealManyServersAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	const report, heal = environmentv1.DriftPolicy_DRIFT_POLICY_REPORT, environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	s := start(t)
	for _, name := range []string{"wide", "small"} {
		must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: name, Drift: report, DriftBrake: 50},
		})
	}
	s.drift("wide", intent.MostAtOnce+1)
	s.drift("small", intent.MostAtOnce)
	change := func(name string, p environmentv1.DriftPolicy, brake uint32) string {
		return s.code("ChangeEnvironment", &registryv1.ChangeEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: name, Drift: p, DriftBrake: brake},
		})
	}
	for _, c := range []struct {
		name, env string
		policy    environmentv1.DriftPolicy
		brake     uint32
		want      string
	}{
		{"to heal many", "wide", heal, 50, code.TooWide},
		{"to report under another brake", "wide", report, 60, "none"},
		{"to heal as many as are allowed", "small", heal, 50, "none"},
		{"to heal with a wider brake", "small", heal, 100, "none"},
	} {
		if have := change(c.env, c.policy, c.brake); have != c.want {
			t.Errorf("%s: %q; want %q", c.name, have, c.want)
		}
	}
	move := func(on *intentv1.Selector, to string, atOnce bool) string {
		return s.code("MoveServers", &registryv1.MoveServersRequest{On: on, Environment: to, AtOnce: atOnce})
	}
	wide := &intentv1.Selector{Environment: "wide"}
	for _, to := range []string{"small", ""} { // without an environment, servers heal without a brake
		if have := move(wide, to, false); have != code.TooWide {
			t.Errorf("a move to environment %q: %q; want %s", to, have, code.TooWide)
		}
	}
	if have := move(&intentv1.Selector{Environment: "small"}, "wide", false); have != "none" {
		t.Errorf("a move to an environment that only reports: %q", have)
	}
	if have := move(wide, "small", true); have != "none" {
		t.Errorf("a move at once: %q", have)
	}
	if have := change("small", heal, 20); have != "none" {
		t.Fatalf("a narrower brake: %q", have)
	}
	if have := change("small", heal, 100); have != code.TooWide {
		t.Errorf("a brake that is lifted: %q; want %s", have, code.TooWide)
	}
}
