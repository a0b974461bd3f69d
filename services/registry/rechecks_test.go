package registry

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAChangeThatWaitedIsRecheckedAfterARestart(t *testing.T) {
	t.Parallel()
	s, id := flapping(t)
	s.stop()
	s.skew.Store(int64(time.Hour))
	s.registry()
	s.untilFound(id, "agent-9")
}

// The replica that put it off may end for good.
func TestEveryReplicaRechecks(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	other, _ := s.registry()
	if err := s.handle(s.r, 1, agentsOf(id, 1, stray("web", 1))); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the other one remembers the server", func() bool { return other.waitsForRecheck(id) })
}

func TestADeadServerIsNotRechecked(t *testing.T) {
	t.Parallel()
	s, id := flapping(t)
	if !s.r.waitsForRecheck(id) {
		t.Fatal("it is not remembered while it is alive")
	}
	s.accepted(topology.VerbDecommission, decommission("one", false))
	bustest.Eventually(t, "it is dead", func() bool { return s.get(id).Life == serverv1.Life_LIFE_DEAD })
	bustest.Eventually(t, "it is forgotten", func() bool { return !s.r.waitsForRecheck(id) })
}

// flapping returns a site whose one server said ten times in a row that something else runs
// there, and had every report acknowledged.
func flapping(t *testing.T) (*site, string) {
	t.Helper()
	s := start(t)
	id := s.server("one")
	for n := range uint64(10) {
		s.report(topology.ReportAgents, agentsOf(id, n+1, stray(fmt.Sprint("agent-", n), 1)))
	}
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: id}, topology.ReportAgents)
	last, err := s.ops.DirectGet(context.Background(), topology.Reports, subject)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "every report is acknowledged",
		func() bool { return s.bus.AckFloor(t, topology.RegistryAgents) >= last.Sequence })
	return s, id
}

func (s *site) untilFound(id, agent string) {
	s.t.Helper()
	bustest.Eventually(s.t, "the last report is recorded", func() bool {
		found := s.get(id).Found
		return len(found) == 1 && found[0].Agent == agent
	})
}

// waitsForRecheck reports whether a server's last report will be rechecked.
func (r *Registry) waitsForRecheck(id string) bool {
	return r.rechecks.Includes(id, topology.ReportAgents)
}
