package registry

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// holdSite is a site with three servers and an agent at version 1.0.0, of which 1.1.0 is active.
func holdSite(t *testing.T) (s *site, servers []string) {
	s = start(t)
	s.channel("release", true)
	s.agent("beacon")
	s.image("beacon", "1.0.0", "release")
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		servers = append(servers, s.server(name))
	}
	s.accepted(topology.VerbInstall, &intentv1.Intent{Note: "OPS-1", Ask: &intentv1.Intent_Install{
		Install: &intentv1.Install{Agent: "beacon", On: &intentv1.Selector{All: true}},
	}})
	s.image("beacon", "1.1.0", "release")
	return s, servers
}

// heldBy returns why a plan leaves out a server.
func (s *site) heldBy(i *intentv1.Intent, server string) string {
	s.t.Helper()
	r := must[*registryv1.PlanIntentResponse](s, "PlanIntent", &registryv1.PlanIntentRequest{Intent: i})
	for _, target := range r.Targets {
		if target.ServerId == server && target.Effect == intentv1.Effect_EFFECT_LEFT_OUT {
			return target.Reason.GetCode()
		}
	}
	return ""
}

func TestEveryChangeOfAHeldAgentIsLeftOut(t *testing.T) {
	t.Parallel()
	s, servers := holdSite(t)
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{
		Agent: "beacon", On: on("web-1"), Reason: "incident 7",
	})
	held := must[*registryv1.ListHoldsResponse](s, "ListHolds", &registryv1.ListHoldsRequest{}).Holds
	if len(held) != 1 || held[0].ServerNames[servers[0]] != "web-1" {
		t.Errorf("the list names %v", held)
	}
	all := &intentv1.Selector{All: true}
	for name, i := range map[string]*intentv1.Intent{
		"an upgrade": {Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "beacon", On: all}}},
		"a removal":  {Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "beacon", On: all}}},
	} {
		if have := s.heldBy(i, servers[0]); have != code.Held {
			t.Errorf("%s of a held agent is left out with %q, want %s", name, have, code.Held)
		}
		if have := s.heldBy(i, servers[1]); have != "" {
			t.Errorf("%s on another server is left out with %s", name, have)
		}
	}
	up := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "beacon", On: all}}}
	if r := s.accepted(topology.VerbUpgrade, up); r.Changed != 2 || r.LeftOut != 1 {
		t.Errorf("changed %d and left out %d, want 2 and 1", r.Changed, r.LeftOut)
	}
	rows := must[*registryv1.ListInstancesResponse](s, "ListInstances", &registryv1.ListInstancesRequest{}).Instances
	for _, row := range rows {
		if held := row.Hold != nil; held != (row.ServerName == "web-1") {
			t.Errorf("on %s: held is %v", row.ServerName, held)
		}
	}
}

func TestAHoldIsAboutServersThatItsSelectorMatchesLater(t *testing.T) {
	t.Parallel()
	s, servers := holdSite(t)
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
		Server: "web-1", SetLabels: map[string]string{"ring": "0"},
	})
	h := must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{
		Agent: "beacon", On: &intentv1.Selector{Labels: map[string]string{"ring": "0"}},
	}).Hold
	if h.Servers != 1 || h.SetBy == "" {
		t.Errorf("%v", h)
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
		Server: "web-2", SetLabels: map[string]string{"ring": "0"},
	})
	up := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "beacon", On: &intentv1.Selector{All: true},
	}}}
	for n, want := range []string{code.Held, code.Held, ""} {
		if have := s.heldBy(up, servers[n]); have != want {
			t.Errorf("server %d is left out with %q, want %q", n, have, want)
		}
	}
}

func TestAHoldEndsAsAWhole(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	set := &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-1", "web-2")}
	first := must[*registryv1.SetHoldResponse](s, "SetHold", set).Hold
	again := &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-2", "web-1")}
	if h := must[*registryv1.SetHoldResponse](s, "SetHold", again).Hold; h.Id != first.Id {
		t.Errorf("the same servers in another order are another hold: %s and %s", first.Id, h.Id)
	}
	if n := len(s.facts(ledger.Hold, first.Id)); n != 1 {
		t.Errorf("the same hold twice wrote %d facts", n)
	}
	release := &registryv1.UnsetHoldsRequest{Agent: "beacon", On: on("web-1")}
	if have := s.code("UnsetHolds", release); have != code.HoldIsWider {
		t.Errorf("released on one of two servers: %q", have)
	}
	release.On = on("db-1")
	if have := s.code("UnsetHolds", release); have != code.NotHeld {
		t.Errorf("released where it is not held: %q", have)
	}
	release.On = &intentv1.Selector{All: true}
	if r := must[*registryv1.UnsetHoldsResponse](s, "UnsetHolds", release); len(r.Holds) != 1 {
		t.Errorf("%v ended", r.Holds)
	}
	if r := must[*registryv1.ListHoldsResponse](s, "ListHolds", &registryv1.ListHoldsRequest{}); len(r.Holds) != 0 {
		t.Errorf("%v is left", r.Holds)
	}
	h := must[*registryv1.SetHoldResponse](s, "SetHold", set).Hold
	must[*registryv1.UnsetHoldsResponse](s, "UnsetHolds", &registryv1.UnsetHoldsRequest{Id: h.Id[:8]})
}

func TestAHoldWhoseTimePassedHoldsNothing(t *testing.T) {
	t.Parallel()
	s, servers := holdSite(t)
	soon := time.Now().Add(time.Hour)
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{
		Agent: "beacon", On: on("web-1"), Until: timestamppb.New(soon),
	})
	s.skew.Add(int64(2 * time.Hour))
	up := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "beacon", On: &intentv1.Selector{All: true},
	}}}
	if have := s.heldBy(up, servers[0]); have != "" {
		t.Errorf("it is left out with %s", have)
	}
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-2")})
	r := must[*registryv1.ListHoldsResponse](s, "ListHolds", &registryv1.ListHoldsRequest{Agent: "beacon"})
	if len(r.Holds) != 1 || r.Holds[0].Servers != 1 {
		t.Errorf("have %v, want the second hold alone", r.Holds)
	}
}

func TestAHoldSurvivesAServerThatIsForgotten(t *testing.T) {
	t.Parallel()
	s, servers := holdSite(t)
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{
		Agent: "beacon", On: on("web-1", "db-1"),
	})
	s.accepted(topology.VerbDecommission, &intentv1.Intent{Ask: &intentv1.Intent_Decommission{
		Decommission: &intentv1.Decommission{Server: "db-1", Lost: true, Force: true},
	}})
	s.untilLife(servers[2], serverv1.Life_LIFE_DEAD)
	must[*registryv1.ForgetServerResponse](s, "ForgetServer", &registryv1.ForgetServerRequest{
		Server: servers[2], Leak: true,
	})
	up := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "beacon", On: &intentv1.Selector{All: true},
	}}}
	if have := s.heldBy(up, servers[0]); have != code.Held {
		t.Errorf("web-1 is left out with %q, want %s", have, code.Held)
	}
}

func TestWrongHoldsAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	past := timestamppb.New(time.Now().Add(-time.Second))
	for _, c := range []struct {
		method string
		q      proto.Message
		want   string
	}{
		{"SetHold", &registryv1.SetHoldRequest{Agent: "ghost", On: on("web-1")}, code.UnknownAgent},
		{"SetHold", &registryv1.SetHoldRequest{Agent: "beacon"}, code.EmptySelector},
		{"SetHold", &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-9")}, code.UnknownServer},
		{"SetHold", &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-1"), Until: past}, code.BadHold},
		{"SetHold", &registryv1.SetHoldRequest{
			Agent: "beacon", On: on("web-1"), Reason: strings.Repeat("x", 501),
		}, code.BadNote},
		{"UnsetHolds", &registryv1.UnsetHoldsRequest{}, code.Malformed},
		{"UnsetHolds", &registryv1.UnsetHoldsRequest{Id: "0badc0de"}, code.NotHeld},
		{"ListHolds", &registryv1.ListHoldsRequest{Agent: "ghost"}, code.UnknownAgent},
	} {
		if have := s.code(c.method, c.q); have != c.want {
			t.Errorf("%s %v: have %q, want %s", c.method, c.q, have, c.want)
		}
	}
}

func TestTheNoteOfAnIntentIsInTheLedger(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	r := must[*registryv1.ListIntentsResponse](s, "ListIntents", &registryv1.ListIntentsRequest{})
	if len(r.Intents) != 1 || r.Intents[0].Intent.GetNote() != "OPS-1" {
		t.Errorf("have %v", r.Intents)
	}
	long := &intentv1.Intent{Note: "two\nlines", Ask: &intentv1.Intent_Upgrade{
		Upgrade: &intentv1.Upgrade{Agent: "beacon", On: on("web-1")},
	}}
	if refused := s.outcome(s.publish(topology.VerbUpgrade, long)); refused.Refusal.GetCode() != code.BadNote {
		t.Errorf("have %v, want %s", refused, code.BadNote)
	}
}

// The rows of an answer are filled again for later ones.
func TestAListShowsNothingOfAnotherOne(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-1")})
	list := func(server string) (*registryv1.ListInstancesResponse, error) {
		return ask[*registryv1.ListInstancesResponse](s, "ListInstances",
			&registryv1.ListInstancesRequest{Server: server})
	}
	var each sync.WaitGroup
	defer each.Wait()
	for _, server := range []string{"web-1", "web-2", ""} {
		want, err := list(server)
		if err != nil || len(want.Instances) == 0 {
			t.Fatalf("list of %q: %v, %v", server, want, err)
		}
		each.Go(func() {
			for range 100 {
				if have, err := list(server); err != nil || !proto.Equal(have, want) {
					t.Errorf("list of %q: %v, %v; want %v", server, have, err, want)
					return
				}
			}
		})
	}
}
