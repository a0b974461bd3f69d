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

func TestAServerThatChangesItsListAllTheTimeIsRecordedNowAndThen(t *testing.T) {
	s, id := flapping(t)
	if l := s.lists(id); len(l) != 1 {
		t.Errorf("recorded %v before the time has come; want one list", l)
	}
	s.skew.Store(int64(time.Minute))
	s.untilFound(id, "agent-9")
}

func TestWhatWasPutOffIsLookedAtAfterARestart(t *testing.T) {
	s, id := flapping(t)
	s.stop()
	s.skew.Store(int64(time.Hour))
	s.registry()
	s.untilFound(id, "agent-9")
}

// The one that put it off may end, and never come back.
func TestEveryReplicaLooksAgain(t *testing.T) {
	s := start(t)
	id := s.server("one")
	other, _ := s.registry()
	if err := s.handle(s.r, 1, agentsOf(id, 1, stray("web", 1))); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the other one remembers the server", func() bool { return other.remembers(id) })
}

func TestADeadServerIsNotRemembered(t *testing.T) {
	s, id := flapping(t)
	if !s.r.remembers(id) {
		t.Fatal("it is not remembered while it is alive")
	}
	s.accepted(topology.VerbDecommission, decommission("one", false))
	bustest.Eventually(t, "it is dead", func() bool { return s.get(id).Life == serverv1.Life_LIFE_DEAD })
	bustest.Eventually(t, "it is forgotten", func() bool { return !s.r.remembers(id) })
}

// flapping gives a site whose one server said ten times in a row that something else runs
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
	bustest.Eventually(t, "every report is acknowledged", func() bool { return s.bus.AckFloor(t, topology.RegistryAgents) >= last.Sequence })
	return s, id
}

func (s *site) untilFound(id, agent string) {
	s.t.Helper()
	bustest.Eventually(s.t, "it is recorded what was said last", func() bool {
		found := s.get(id).Found
		return len(found) == 1 && found[0].Agent == agent
	})
}

func (r *Registry) remembers(id string) bool {
	r.againMu.Lock()
	defer r.againMu.Unlock()
	_, ok := r.again[id]
	return ok
}
