package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/instances"
)

func (s *site) check(q *registryv1.CheckFleetRequest) *registryv1.CheckFleetResponse {
	s.t.Helper()
	return must[*registryv1.CheckFleetResponse](s, "CheckFleet", q)
}

func TestACheckIsPagedCountedAndFiltered(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour) // so that none of them goes offline, and none ever was online
	for n := range 3 {
		s.server(fmt.Sprintf("server-%d", n))
	}
	var seen []string
	var servers uint32
	for cursor := ""; ; {
		part := s.check(&registryv1.CheckFleetRequest{Page: &apiv1.Page{Limit: 2, Cursor: cursor}})
		servers += part.Servers
		for _, d := range part.Differences {
			if seen = append(seen, d.ServerName); d.Cause != code.NeverConnected || d.Cure == "" {
				t.Errorf("%v; want %s with a cure", d, code.NeverConnected)
			}
		}
		if cursor = part.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 3 || servers != 3 {
		t.Errorf("%v on %d servers; want each of three once", seen, servers)
	}
	counted := s.check(&registryv1.CheckFleetRequest{CountOnly: true})
	if len(counted.Differences) != 0 || len(counted.Causes) != 1 || counted.Causes[0].Count != 3 {
		t.Errorf("counted %v; want three of one cause, and no row", counted)
	}
	one := s.check(&registryv1.CheckFleetRequest{On: &intentv1.Selector{Servers: []string{"server-1"}}})
	if len(one.Differences) != 1 || one.Servers != 1 || one.Differences[0].ServerName != "server-1" {
		t.Errorf("one server: %v", one)
	}
	if agents := s.check(&registryv1.CheckFleetRequest{Scope: registryv1.CheckScope_CHECK_SCOPE_AGENTS}); len(
		agents.Differences) != 0 {
		t.Errorf("only agents: %v; want none", agents)
	}
}

// The CLI explains a server by the first part of a check that names it.
func TestACheckOfOneServerIsOnePartHoweverManyServersThereAre(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	s.fleet(instances.ServersAPart + 100)
	last := ""
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			last = server.Id
		}
	})
	one := s.check(&registryv1.CheckFleetRequest{On: &intentv1.Selector{Servers: []string{last}}})
	if len(one.Differences) != 1 || one.Servers != 1 || one.NextCursor != "" {
		t.Errorf("the part is %v; want one difference of the server, and no further part", one)
	}
}
