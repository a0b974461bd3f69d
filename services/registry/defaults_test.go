package registry

import (
	"fmt"
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{Name: "prod"},
	})
	s.setDefault("web", reachNew)
	id := s.join("one", "prod")
	s.image("web", "1.0.0", "release", func(m *imagev1.Manifest) { m.Platform.Arch = "arm64" })
	bustest.Eventually(t, "web waits", func() bool {
		rows := s.rows(id)
		return len(rows) == 1 && len(rows[0].Reasons) == 1 && rows[0].Reasons[0].Code == "WRONG_PLATFORM"
	})
	s.image("web", "1.1.0", "release")
	bustest.Eventually(t, "web waits for db", func() bool {
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
