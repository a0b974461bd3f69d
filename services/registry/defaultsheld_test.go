package registry

import (
	"fmt"
	"testing"
	"time"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
)

// waitingFor is servers of prod on which the default of an agent without an image waits.
func waitingFor(t *testing.T, agent string, servers int) *site {
	s := startBeating(t, time.Hour)
	s.channel("release", true)
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{Name: "prod"},
	})
	s.agent(agent)
	s.setDefault(agent, reachNew)
	var drafts []ledger.Draft
	for n := range servers {
		id := ident.New()
		drafts = append(drafts,
			fact(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprint("s", n), Cell: "main", Environment: "prod"}),
			fact(ledger.Server, id, &serverv1.Enrolled{
				Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
			}))
	}
	s.append(drafts...)
	s.comeOnline()
	bustest.Eventually(t, "the default waits everywhere", func() bool { return s.r.defaults.Waits() == servers })
	return s
}

func (s *site) rowOf(agent string) *registryv1.DefaultRow {
	s.t.Helper()
	q := &registryv1.ListDefaultsRequest{Environment: "prod"}
	for _, row := range must[*registryv1.ListDefaultsResponse](s, "ListDefaults", q).Defaults {
		if row.Agent == agent {
			return row
		}
	}
	s.t.Fatalf("no default of %s", agent)
	return nil
}

// What waited while no registry ran, or was held before, is not known after a restart, and must not come by it.
func TestARestartBringsNoDefaultToManyServersAtOnce(t *testing.T) {
	t.Parallel()
	const many = environments.MostAtOnce + 1
	s := waitingFor(t, "late", many)
	s.stop()
	_, image := imageFacts("late", "1.0.0", "release")
	s.appendAsync(image...)
	s.r, s.stop = s.registry()
	bustest.Eventually(t, "the default is held", func() bool {
		row := s.rowOf("late")
		return len(row.Reasons) == 1 && row.Reasons[0].Code == code.TooWide
	})
	s.settled(s.r)
	if n := s.with("late"); n != 0 {
		t.Errorf("it came to %d servers", n)
	}
}
