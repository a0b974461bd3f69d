package registry

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

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
