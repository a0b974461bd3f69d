package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// waitingServers returns on how many servers a default waits, as status counts them.
func (s *site) waitingServers() int {
	s.t.Helper()
	return int(must[*registryv1.CountServersResponse](s, "CountServers", &registryv1.CountServersRequest{
		Filter: &registryv1.ListServersRequest{WaitsForDefault: true},
	}).Counts.Total)
}

// A check compared instances only, so an agent that every server lacks was no difference.
func TestADefaultThatCannotBeInstalledDiffersUntilItCanOrEnds(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("web", reachNew)
	one, two := s.join("one", "prod"), s.join("two", "prod")
	bustest.Eventually(t, "two servers wait", func() bool { return s.waitingServers() == 2 })
	r := s.check(&registryv1.CheckFleetRequest{Agent: "web"})
	if len(r.Differences) != 2 || r.Agents != 2 {
		t.Fatalf("the check is %v; want a difference of each server", r)
	}
	d := r.Differences[0]
	if d.Cause != code.MissingDependency || d.Agent != "web" || d.Environment != "prod" || d.Reason == "" ||
		d.Cure == "" || d.Since == nil || d.Remedy != registryv1.Remedy_REMEDY_PERSON {
		t.Errorf("the difference is %v", d)
	}
	if r := s.check(&registryv1.CheckFleetRequest{
		Agent: "web", Scope: registryv1.CheckScope_CHECK_SCOPE_SERVERS,
	}); len(r.Differences) != 0 {
		t.Errorf("a check of servers alone found %v", r.Differences)
	}
	if r := s.check(&registryv1.CheckFleetRequest{Agent: "db"}); len(r.Differences) != 0 {
		t.Errorf("a check of another agent found %v", r.Differences)
	}
	s.accepted("install", install("db", on(one)))
	s.untilInstalled("web", one)
	bustest.Eventually(t, "one server waits", func() bool { return s.waitingServers() == 1 })
	if r := s.check(&registryv1.CheckFleetRequest{On: on(two)}); len(r.Differences) != 2 ||
		r.Differences[1].Cause != code.MissingDependency || r.Differences[0].Agent != "" {
		t.Errorf("the check of the other server is %v; want its own difference and the default", r)
	}
	must[*registryv1.UnsetDefaultResponse](s, "UnsetDefault",
		&registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "web"})
	bustest.Eventually(t, "no server waits", func() bool { return s.waitingServers() == 0 })
}
