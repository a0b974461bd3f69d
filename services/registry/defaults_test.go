package registry

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

const (
	reachNew = environmentv1.Reach_REACH_NEW
	reachAll = environmentv1.Reach_REACH_ALL
)

func TestAServerThatEnrolsGetsWhatItsEnvironmentWants(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("web", reachNew)
	d := s.setDefault("db", reachNew)
	id := s.join("one", "prod")
	s.untilInstalled("web", id)
	s.untilInstalled("db", id)

	wanted := s.facts(ledger.Instance, ledger.Key(id, "db"))[0]
	r := s.outcome(wanted.Request)
	if r.Actor != "alice" || r.Intent.GetSource().GetRevision() != d.Revision || r.Changed != 1 ||
		r.Intent.Source.Environment != "prod" {
		t.Errorf("the intent is %v; want one of alice, from the default", r)
	}
	if other := s.join("two", ""); s.wanted(other, "db") {
		t.Error("a server without an environment got an agent")
	}
}

func TestADefaultNeverInstallsTwiceWhateverRunsAndRestarts(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	second, stopSecond := s.registry()
	s.setDefault("db", reachNew)
	var ids []string
	for n := range 20 {
		ids = append(ids, s.join(fmt.Sprintf("s%d", n), "prod"))
	}
	s.untilInstalled("db", ids...)
	s.settled(s.r, second)
	stopSecond()
	third, _ := s.registry() // starts with everything
	s.settled(s.r, third)
	for _, id := range ids {
		if n := s.wants(id, "db"); n != 1 {
			t.Errorf("server %s: db was wanted %d times; want once", id, n)
		}
	}
}

// A registry that was killed before it derived anything leaves it to the next start.
func TestWhatWasDueBeforeARestartIsDerivedAfterIt(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	d := s.setDefault("db", reachNew)
	s.stop()
	id := ident.New()
	drafts := []ledger.Draft{
		fact(ledger.Server, id, &serverv1.Invited{Name: "one", Cell: "main", Environment: "prod"}),
		fact(ledger.Server, id, &serverv1.Enrolled{
			Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
		}),
	}
	s.appendAsync(drafts...)
	s.r, _ = s.registry()
	s.untilInstalled("db", id)
	if r := s.outcome(s.facts(ledger.Instance, ledger.Key(id, "db"))[0].Request); r.Actor != d.Actor {
		t.Errorf("the actor is %s; want %s", r.Actor, d.Actor)
	}
}

func TestWhatCannotBeInstalledWaitsWithItsReasonAndComesAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.channel("release", true)
	s.agent("db")
	s.agent("web", "db")
	s.put(record.Create(&environmentv1.Environment{Name: "prod"}))
	s.setDefault("web", reachNew)
	id := s.join("one", "prod")
	s.image("web", "1.0.0", "release", func(m *imagev1.Manifest) { m.Platform.Arch = "arm64" })
	polltest.Eventually(t, "web waits", func() bool {
		rows := s.rows(id)
		return len(rows) == 1 && len(rows[0].Reasons) == 1 && rows[0].Reasons[0].Code == "WRONG_PLATFORM"
	})
	s.image("web", "1.1.0", "release")
	polltest.Eventually(t, "web waits for db", func() bool {
		rows := s.rows(id)
		return len(rows[0].Reasons) == 1 && rows[0].Reasons[0].Code == "MISSING_DEPENDENCY"
	})
	s.image("db", "1.0.0", "release")
	s.accepted("install", install("db", on(id)))
	s.untilInstalled("web", id)
	if have := s.instance("web").Wanted.Version; have != "1.1.0" {
		t.Errorf("web is wanted at %s; want 1.1.0", have)
	}
	s.image("web", "2.0.0", "release")
	s.settled(s.r)
	if s.wants(id, "web") != 1 {
		t.Error("a channel that moved changed what the default installed")
	}
}

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
	polltest.Eventually(t, "two servers wait", func() bool { return s.waitingServers() == 2 })
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
	polltest.Eventually(t, "one server waits", func() bool { return s.waitingServers() == 1 })
	if r := s.check(&registryv1.CheckFleetRequest{On: on(two)}); len(r.Differences) != 2 ||
		r.Differences[1].Cause != code.MissingDependency || r.Differences[0].Agent != "" {
		t.Errorf("the check of the other server is %v; want its own difference and the default", r)
	}
	must[*registryv1.UnsetDefaultResponse](s, "UnsetDefault",
		&registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "web"})
	polltest.Eventually(t, "no server waits", func() bool { return s.waitingServers() == 0 })
}

// defaulted is a site with the environments prod and test, and the agents db and web, which needs db.
func defaulted(t *testing.T) *site {
	s := start(t)
	s.channel("release", true)
	s.agent("db")
	s.agent("web", "db")
	s.image("db", "1.0.0", "release")
	s.image("web", "1.0.0", "release")
	for _, name := range []string{"prod", "test"} {
		s.put(record.Create(&environmentv1.Environment{Name: name}))
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
	polltest.Eventually(s.t, fmt.Sprintf("%s is wanted on %d servers", agent, len(servers)), func() bool {
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
		polltest.Eventually(s.t, "every server was looked at", r.defaults.Idle)
		// The look that took the last ones may still run; one more, by hand, finds the same.
		if err := r.defaults.Look(context.Background(), r.records.Servers(records.Everyone)); err != nil {
			s.t.Fatal(err)
		}
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
