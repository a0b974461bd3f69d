package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/instances"
)

// vms declares an agent of kind external that the caller of the site reports.
func (s *site) vms(within time.Duration) {
	s.t.Helper()
	s.put(record.Create(&agentv1.Agent{
		Name: "vm", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "alice", ReportWithin: durationpb.New(within),
	}))
}

func (s *site) reportVMs(complete *registryv1.Range, found ...*externalv1.Found) *registryv1.ReportExternalResponse {
	s.t.Helper()
	return must[*registryv1.ReportExternalResponse](s, "ReportExternal",
		&registryv1.ReportExternalRequest{Agent: "vm", Found: found, Complete: complete})
}

func good(name string) *externalv1.Found {
	return &externalv1.Found{Name: name, Version: "1", Health: instancev1.Health_HEALTH_GOOD}
}

// listed returns what a list of instances shows, page by page: the agent, or the agent and the name.
func (s *site) listed(q *registryv1.ListInstancesRequest) (names []string) {
	s.t.Helper()
	for {
		r := must[*registryv1.ListInstancesResponse](s, "ListInstances", q)
		for _, row := range r.Instances {
			name := row.Instance.Agent
			if x := row.External.GetExternal(); x != nil {
				name += "/" + x.Found.Name
			}
			names = append(names, name)
		}
		if r.NextCursor == "" {
			return names
		}
		q.Page = &apiv1.Page{Limit: q.GetPage().GetLimit(), Cursor: r.NextCursor}
	}
}

func TestExternalInstancesStandBehindTheOthersInEachPartOfAList(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "db", "web")
	s.vms(time.Hour)
	there := func(name, server string) *externalv1.Found {
		f := good(name)
		f.Server = server
		return f
	}
	s.reportVMs(nil, there("a", "one"), there("b", ""), there("c", "one"))

	hour := durationpb.New(time.Hour)
	type ask = registryv1.ListInstancesRequest
	const converged = instancev1.State_STATE_CONVERGED
	every, placed := []string{"vm/a", "vm/b", "vm/c"}, []string{"db", "web", "vm/a", "vm/c"}
	own := []string{"db", "web"}
	for name, c := range map[string]struct {
		q    *ask
		want []string
	}{
		"without them":          {&ask{}, own},
		"all":                   {&ask{WithExternal: true}, []string{"db", "web", "vm/a", "vm/b", "vm/c"}},
		"on a server":           {&ask{WithExternal: true, Server: "one"}, placed},
		"of servers":            {&ask{WithExternal: true, On: on("one")}, placed},
		"of the kind":           {&ask{WithExternal: true, Kind: agentv1.Kind_KIND_EXTERNAL}, every},
		"of another kind":       {&ask{WithExternal: true, Kind: agentv1.Kind_KIND_DAEMON}, own},
		"of the agent":          {&ask{WithExternal: true, Agent: "vm"}, every},
		"of a version":          {&ask{WithExternal: true, Version: "1"}, every},
		"in a state":            {&ask{WithExternal: true, State: converged}, own},
		"confirmed a while ago": {&ask{WithExternal: true, Agent: "vm", UnconfirmedFor: hour}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []uint32{0, 1, 2, 3} {
				c.q.Page = &apiv1.Page{Limit: limit}
				if have := s.listed(c.q); !slices.Equal(have, c.want) {
					t.Errorf("in parts of %d: %v, want %v", limit, have, c.want)
				}
			}
		})
	}

	r := must[*registryv1.CountInstancesResponse](s, "CountInstances", &registryv1.CountInstancesRequest{
		Filter: &ask{WithExternal: true}, By: []string{"kind"},
	})
	if g := r.Counts.Groups; r.Counts.Total != 5 || len(g) != 2 || g[0].Values[0] != "external" || g[0].Count != 3 {
		t.Errorf("counted %v", r.Counts)
	}
	r = must[*registryv1.CountInstancesResponse](s, "CountInstances", &registryv1.CountInstancesRequest{
		Filter: &ask{WithExternal: true}, By: []string{"kind", "server"},
	})
	if named := slices.ContainsFunc(r.Counts.Groups, func(g *registryv1.CountGroup) bool {
		return g.Values[1] == "one"
	}); !named {
		t.Errorf("counted %v; want servers by name", r.Counts)
	}
}

func TestACheckListsExternalInstancesThatAreBadOrStale(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.server("one")
	s.vms(time.Minute)
	bad := good("bad")
	bad.Server, bad.Health, bad.Reason = "one", instancev1.Health_HEALTH_BAD, "no answer"
	s.reportVMs(nil, bad, good("x"), good("y"), good("z"))
	check := func() (causes []string) {
		q := &registryv1.CheckFleetRequest{Scope: registryv1.CheckScope_CHECK_SCOPE_AGENTS, Page: &apiv1.Page{Limit: 1}}
		for {
			r := must[*registryv1.CheckFleetResponse](s, "CheckFleet", q)
			for _, d := range r.Differences {
				causes = append(causes, d.ServerName+" "+d.Cause)
			}
			if r.NextCursor == "" {
				return causes
			}
			q.Page.Cursor = r.NextCursor
		}
	}
	if have := check(); !slices.Equal(have, []string{"one UNHEALTHY"}) {
		t.Errorf("a check found %v", have)
	}
	s.skew.Add(int64(2 * time.Minute))
	want := []string{"one STALE_REPORT", " STALE_REPORT", " STALE_REPORT", " STALE_REPORT"}
	if have := check(); !slices.Equal(have, want) {
		t.Errorf("after two minutes a check found %v", have)
	}
}

// want replaces the versions that are wanted of the agent vm.
func (s *site) want(wanted map[string]string) *registryv1.PutRecordRequest {
	all := must[*registryv1.ListRecordsResponse](s, "ListRecords", record.List(ledger.Agent))
	next := proto.CloneOf(all.Agents[0])
	next.Wanted = wanted
	return record.Change(next)
}

func TestACheckComparesTheVersionsOfExternalInstancesThatAreWanted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.vms(time.Hour)
	s.put(record.Create(&environmentv1.Environment{Name: "prod"}))
	id := s.server("web-1")
	must[*registryv1.ChangeServerResponse](s, "ChangeServer",
		&registryv1.ChangeServerRequest{Server: id, Environment: proto.String("prod")})
	there := good("there")
	there.Server = id
	s.reportVMs(nil, good("apart"), there, good("own"))
	differ := func() (out []string) {
		t.Helper()
		r := must[*registryv1.CheckFleetResponse](s, "CheckFleet", &registryv1.CheckFleetRequest{Agent: "vm"})
		for _, d := range r.Differences {
			if d.Cause != code.WrongVersion || d.Observed != "1" {
				t.Errorf("%v", d)
			}
			out = append(out, d.Wanted+" "+d.Reason)
		}
		return out
	}
	if got := differ(); len(got) != 0 {
		t.Errorf("nothing is wanted, and these differ: %q", got)
	}
	s.put(s.want(map[string]string{"all": "2", "env=prod": "3", "own": "1"}))
	want := []string{"3 there: it has version 1", "2 apart: it has version 1"}
	if got := differ(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q differ; want %q", got, want)
	}
	for _, r := range must[*registryv1.ListInstancesResponse](s, "ListInstances",
		&registryv1.ListInstancesRequest{Agent: "vm", WithExternal: true}).Instances {
		row := r.External
		want := map[string]string{"apart": "2", "there": "3", "own": "1"}
		if name := row.External.Found.Name; row.Wanted != want[name] {
			t.Errorf("%s is listed with %q as wanted", name, row.Wanted)
		}
	}
	s.put(s.want(map[string]string{"all": "1", "env=prod": "1", "lost": "1"}))
	missing := s.check(&registryv1.CheckFleetRequest{Agent: "vm"}).Differences
	if len(missing) != 1 || missing[0].Cause != code.StaleReport || missing[0].Observed != "never reported" ||
		missing[0].Reason != "lost: it is wanted, and no report lists it" {
		t.Errorf("an instance that no report lists: %v", missing)
	}
	s.put(s.want(map[string]string{"all": "2", "env=prod": "3", "own": "1"}))
	upgraded := proto.CloneOf(there)
	upgraded.Version = "3"
	s.reportVMs(nil, upgraded)
	if got := differ(); len(got) != 1 {
		t.Errorf("after the upgrade %q differ", got)
	}
}

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
