package intent_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// needing is a fleet with the agent lib, which the agent app needs; app is on the first servers only.
func needing(servers, withApp int) *world {
	w := fleet(servers)
	w.apply(ledger.Agent, "lib", &agentv1.Created{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON}})
	app := &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON, Dependencies: []string{"lib"}}
	w.apply(ledger.Agent, "app", &agentv1.Created{Agent: app})
	n := 0
	for s := range w.AllServers() {
		agents := []string{"lib", "app"}
		if n++; n > withApp {
			agents = agents[:1]
		}
		for _, a := range agents {
			w.apply(ledger.Instance, ledger.Key(s.Id, a), &instancev1.Wanted{
				InstanceId: ident.From(s.Id, a), Generation: 1, Image: &imagev1.Ref{Id: "image"},
			})
		}
	}
	return w
}

func removeAgent(agent string) *intentv1.Intent {
	ask := &intentv1.Remove{Agent: agent, On: &intentv1.Selector{All: true}}
	return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: ask}}
}

func TestAnAgentThatOthersNeedIsNotRemoved(t *testing.T) {
	w := needing(5, 5)
	d := w.decide("remove", removeAgent("lib"))
	if d.Refusal.GetCode() != "NEEDED_BY" {
		t.Fatalf("decided %v", d)
	}
	for _, part := range []string{"5 NEEDED_BY", `agent "lib" is needed there by app (for server "s`} {
		if !strings.Contains(d.Refusal.Message, part) {
			t.Errorf("it says %q, without %q", d.Refusal.Message, part)
		}
	}
	if d := w.decide("remove", removeAgent("app")); d.Refusal != nil {
		t.Errorf("what needs it is not removed: %v", d.Refusal)
	}
}

// The agent is removed where no other needs it; the servers where one does are named.
func TestARemovalLeavesOutTheServersWhereOthersNeedTheAgent(t *testing.T) {
	w := needing(7, 5)
	p := w.plan(removeAgent("lib"))
	if p.Changed != 2 || p.LeftOut != 5 || len(p.Reasons) != 1 ||
		p.Reasons[0].Code != "NEEDED_BY" || len(p.Reasons[0].ServerIds) != 5 {
		t.Errorf("%v; want 2 that change and 5 left out, by name", p)
	}
}

func TestADependencyIsRemovedRightAfterItsDependent(t *testing.T) {
	w := needing(2, 2)
	for _, agent := range []string{"app", "lib"} {
		if d := w.decide("remove", removeAgent(agent)); d.Refusal != nil || d.Changed != 2 {
			t.Errorf("%s: %v", agent, d)
		}
	}
}

func TestADecommissionIgnoresDependencies(t *testing.T) {
	w := needing(1, 1)
	ask := &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{Server: "s0"}}
	d := w.decide("decommission", &intentv1.Intent{Ask: ask})
	if d.Refusal != nil {
		t.Fatal(d.Refusal)
	}
	for _, agent := range []string{"app", "lib"} {
		if i, _ := w.Instance(ident.From("server", "0"), agent); i.Wanted != nil {
			t.Errorf("%s is still wanted", agent)
		}
	}
}
