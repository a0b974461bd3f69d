package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// defaulted is a site with the environments prod and test, and the agents db and web, which needs db.
func defaulted(t *testing.T) *site {
	s := start(t)
	s.channel("release", true)
	s.agent("db")
	s.agent("web", "db")
	s.image("db", "1.0.0", "release")
	s.image("web", "1.0.0", "release")
	for _, name := range []string{"prod", "test"} {
		must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: name},
		})
	}
	return s
}

func setDefault(agent string, reach environmentv1.Reach) *registryv1.SetDefaultRequest {
	return &registryv1.SetDefaultRequest{Environment: "prod", Agent: agent, Reach: reach}
}

func (s *site) setDefault(agent string, reach environmentv1.Reach) *environmentv1.Default {
	s.t.Helper()
	return must[*registryv1.SetDefaultResponse](s, "SetDefault", setDefault(agent, reach)).Default
}

// join invites a server into an environment and enrols it.
func (s *site) join(name, environment string) string {
	s.t.Helper()
	token := s.tokenOf(must[*registryv1.InviteServerResponse](s, "InviteServer",
		&registryv1.InviteServerRequest{Name: name, Environment: environment}))
	if _, err := s.enrol(token, "key of "+name); err != nil {
		s.t.Fatal(err)
	}
	return token.ServerID
}

// untilInstalled waits until servers have an agent.
func (s *site) untilInstalled(agent string, servers ...string) {
	s.t.Helper()
	bustest.Eventually(s.t, fmt.Sprintf("%s is wanted on %d servers", agent, len(servers)), func() bool {
		return !slices.ContainsFunc(servers, func(id string) bool { return !s.wanted(id, agent) })
	})
}

func (s *site) wanted(server, agent string) (wanted bool) {
	s.r.follower.Read(func() {
		i, _ := s.r.records.View.Instance(server, agent)
		wanted = i.GetWanted() != nil
	})
	return wanted
}

// settled has every registry look at every server, and returns once that is done.
func (s *site) settled(registries ...*Registry) {
	s.t.Helper()
	for _, r := range registries {
		r.defaults.AddEverything()
	}
	for _, r := range registries {
		bustest.Eventually(s.t, "every server was looked at", r.defaults.Idle)
		// The look that took the last ones may still run; one more, by hand, finds the same.
		r.defaults.Look(context.Background(), r.defaults.Take())
	}
}

// wants returns how many facts made an agent wanted on a server.
func (s *site) wants(server, agent string) int {
	n := 0
	for _, f := range s.facts(ledger.Instance, ledger.Key(server, agent)) {
		if _, ok := f.Body.(*instancev1.Wanted); ok {
			n++
		}
	}
	return n
}

func (s *site) rows(server string) []*registryv1.DefaultRow {
	return must[*registryv1.ListDefaultsResponse](s, "ListDefaults",
		&registryv1.ListDefaultsRequest{Server: server}).Defaults
}
