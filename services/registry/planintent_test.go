package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func (s *site) plan(q *registryv1.PlanIntentRequest) *registryv1.PlanIntentResponse {
	s.t.Helper()
	return must[*registryv1.PlanIntentResponse](s, "PlanIntent", q)
}

// The image is computed for each server, by its platform and its environment's channel.
func TestAPlanShowsFromAndToForEachServerAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.channel("dev", false)
	s.image("web", "1.0.0", "release")
	newest := s.image("web", "1.1.0", "release")
	dev := s.image("web", "2.0.0-rc.1", "dev")
	s.append(
		fact(ledger.Environment, "lab",
			&environmentv1.Created{Environment: &environmentv1.Environment{Channel: "dev"}}),
	)
	one, two := s.server("one"), s.server("two")
	s.append(fact(ledger.Server, two, &serverv1.Changed{Environment: "lab"}))
	all := &intentv1.Selector{All: true}
	before := s.last()

	r := s.plan(&registryv1.PlanIntentRequest{Intent: install("web", all)})

	to := map[string]string{}
	for _, x := range r.Targets {
		to[x.ServerName] = x.To.GetId()
		if len(x.To.GetDigest()) == 0 {
			t.Errorf("%s goes to an image without a digest", x.ServerName)
		}
	}
	if to["one"] != newest || to["two"] != dev || len(r.Plans) != 1 || len(r.Plans[0].Chosen) != 2 {
		t.Errorf("%v, chosen %v; want %s and %s", to, r.Plans[0].GetChosen(), newest, dev)
	}
	if after := s.last(); after != before {
		t.Errorf("the ledger ends at %d after a plan; want %d", after, before)
	}
	s.image("web", "1.2.0", "release")
	s.accepted("install", r.Plans[0].Intent)
	s.r.follower.Read(func() {
		if i, _ := s.r.records.View.Instance(one, "web"); i.GetWanted().GetId() != newest {
			t.Errorf("wanted at %v; want what the plan showed", i.GetWanted())
		}
	})
}

func TestEveryPageOfAPlanHasTheSameTotals(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const n = 1200
	s.fleet(n)
	q := &registryv1.PlanIntentRequest{
		Intent: install("web", &intentv1.Selector{All: true}),
		Page:   &apiv1.Page{Limit: 500},
	}
	seen, parts := map[string]bool{}, 0
	for {
		r := s.plan(q)
		parts++
		for _, x := range r.Targets {
			seen[x.ServerId] = true
		}
		if r.Plans[0].Changed != n {
			t.Fatalf("part %d changes %d; want %d", parts, r.Plans[0].Changed, n)
		}
		if q.Page.Cursor = r.NextCursor; q.Page.Cursor == "" {
			break
		}
	}
	if len(seen) != n || parts != 3 {
		t.Errorf("%d servers in %d parts; want %d in 3", len(seen), parts, n)
	}
}

// last returns the sequence of the last fact in the ledger.
func (s *site) last() uint64 {
	s.t.Helper()
	end, err := s.r.cfg.Conn.Stream(s.t.Context(), topology.Ledger)
	if err != nil {
		s.t.Fatal(err)
	}
	return end.LastSequence
}

// A plan shows the values that differ on servers that have the agent, counted over all of its parts.
func TestAPlanShowsWhichValuesChangeOnHowManyServers(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.server("one")
	s.server("two")
	all := &intentv1.Selector{All: true}
	s.accepted("install", install("web", all))
	values := func(q *registryv1.PlanIntentRequest) (out []string) {
		for _, v := range s.plan(q).Values {
			out = append(out, fmt.Sprintf("%s %s %v %s %s %d", v.Agent, v.Name, v.From == nil, v.GetFrom(), v.GetTo(),
				v.Servers))
		}
		return out
	}
	set := func(level string) *intentv1.Intent { return configure("web", map[string]string{"level": level}, all) }

	have := values(&registryv1.PlanIntentRequest{Intent: set("info"), Page: &apiv1.Page{Limit: 1}})
	if want := []string{"web level true  info 2"}; !slices.Equal(have, want) {
		t.Errorf("a value that comes: %q, want %q", have, want)
	}
	s.accepted(topology.VerbConfigure, set("info"))
	have = values(&registryv1.PlanIntentRequest{Intent: set("debug")})
	if want := []string{"web level false info debug 2"}; !slices.Equal(have, want) {
		t.Errorf("a value that changes: %q, want %q", have, want)
	}
	q := &registryv1.PlanIntentRequest{Intent: set("debug"), Page: &apiv1.Page{Limit: 1}}
	q.Page.Cursor = s.plan(q).NextCursor
	if have = values(q); q.Page.Cursor == "" || len(have) > 0 {
		t.Errorf("the second part repeats %q", have)
	}
	if have = values(&registryv1.PlanIntentRequest{Intent: set("info")}); len(have) > 0 {
		t.Errorf("nothing differs: %q", have)
	}
}
