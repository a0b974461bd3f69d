package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

// Many servers at once get their agents by few intents.
func TestOneIntentServesManyServers(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.fleet(1200)
	must[*registryv1.SetDefaultResponse](s, "SetDefault", setDefault("db", reachNew))
	var drafts []ledger.Draft
	var ids []string
	s.r.follower.Read(func() {
		for x := range s.r.records.View.AllServers() {
			ids = append(ids, x.Id)
			drafts = append(drafts, fact(ledger.Server, x.Id, &serverv1.Changed{Environment: "prod"}))
		}
	})
	for part := range slices.Chunk(drafts, 400) {
		s.append(part...)
	}
	began := time.Now()
	s.untilInstalled("db", ids...)
	intents := map[string]bool{}
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("db") {
			intents[i.IntentId] = true
		}
	})
	t.Logf("%d servers by %d intents, the last %v after they joined", len(ids), len(intents), time.Since(began))
	if len(intents) > 60 {
		t.Errorf("%d intents for %d servers", len(intents), len(ids))
	}
}

// A default that would reach many servers at once is refused with the way in waves; what a rollout brought before is
// not touched again.
func TestADefaultForManyServersIsRefusedUnlessTheyAreReachedAtOnceOnPurpose(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	var drafts []ledger.Draft
	for n := range environments.MostAtOnce + 1 {
		id := ident.New()
		drafts = append(drafts,
			fact(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprint("s", n), Cell: "main", Environment: "prod"}),
			fact(ledger.Server, id, &serverv1.Enrolled{
				Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
			}))
	}
	s.append(drafts...)
	wide := setDefault("db", reachAll)
	if have := s.code("SetDefault", wide); have != code.TooWide {
		t.Errorf("for %d servers: %s; want %s", environments.MostAtOnce+1, have, code.TooWide)
	}
	plan := &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: wide}}
	if have := s.code("PlanDefaults", plan); have != code.TooWide {
		t.Errorf("its plan: %s; want %s", have, code.TooWide)
	}
	s.settled(s.r)
	if n := s.with("db"); n != 0 {
		t.Errorf("a refused default installed on %d servers", n)
	}
	s.setDefault("db", reachNew)
	one := s.join("one", "prod")
	s.untilInstalled("db", one)

	// All but one of the others get it by hand, as a rollout would bring it.
	s.accepted("install", install("db", &intentv1.Selector{Servers: []string{"s0"}}))
	s.setDefault("db", reachAll)
	bustest.Eventually(t, "db is wanted everywhere", func() bool { return s.with("db") == environments.MostAtOnce+2 })

	wide = setDefault("web", reachAll)
	if have := s.code("SetDefault", wide); have != code.TooWide {
		t.Errorf("web for %d servers: %s; want %s", environments.MostAtOnce+2, have, code.TooWide)
	}
	// An agent without an image would come to all of them at once with its first image.
	s.agent("late")
	if have := s.code("SetDefault", setDefault("late", reachAll)); have != code.TooWide {
		t.Errorf("late, whose image is missing: %s; want %s", have, code.TooWide)
	}
	wide.AtOnce = true
	must[*registryv1.SetDefaultResponse](s, "SetDefault", wide)
	bustest.Eventually(t, "web is wanted everywhere", func() bool { return s.with("web") == environments.MostAtOnce+2 })
}

// A default for new servers may be set in a frozen environment; one for those that are in it would change them.
func TestADefaultForAllServersIsRefusedWhileTheirEnvironmentIsFrozen(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.join("one", "prod")
	frozen := &environmentv1.Environment{Name: "prod", Freezes: []*environmentv1.Freeze{{
		Until: timestamppb.New(time.Now().Add(24 * time.Hour)),
	}}}
	must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment",
		&registryv1.ChangeEnvironmentRequest{Environment: frozen})
	if have := s.code("SetDefault", setDefault("db", reachAll)); have != code.Frozen {
		t.Errorf("for all servers: %s; want %s", have, code.Frozen)
	}
	s.setDefault("db", reachNew)
	s.untilInstalled("db", s.join("two", "prod"))
}
