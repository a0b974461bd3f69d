package registry

import (
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The model's steps about what operators set beside agents: holds, label rules, reinstalls, machines of the lobby.

// tier is the label that the rules of the model give.
const tier = "tier"

// hold holds an agent on a server, or ends its holds there.
func (m *model) hold() {
	h, agent := draw(m, "server", m.servers), draw(m, "agent", modelAgents)
	var err error
	if rapid.Bool().Draw(m.rt, "unhold") {
		err = m.unhold(h, agent)
	} else {
		_, err = ask[*registryv1.PutRecordResponse](m.site, "PutRecord",
			record.Set(&holdv1.Hold{Agent: agent, On: on(h.id)}))
	}
	if err != nil && m.life(h) == serverv1.Life_LIFE_ALIVE { // one that ends is refused
		m.rt.Fatalf("hold: %v", err)
	}
}

// unhold ends the holds of an agent on a server, if there are any.
func (m *model) unhold(h *host, agent string) error {
	q := &registryv1.DeleteRecordRequest{Noun: string(ledger.Hold), Agent: agent, On: on(h.id)}
	_, err := ask[*registryv1.DeleteRecordResponse](m.site, "DeleteRecord", q)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// rule sets or unsets a label rule for the servers of an environment.
func (m *model) rule() {
	name, environment := m.history+draw(m, "rule", []string{"-1", "-2"}), draw(m, "environment", m.environments())
	if rapid.Bool().Draw(m.rt, "unset") {
		q := record.Delete(ledger.LabelRule, name, 0)
		_, err := ask[*registryv1.DeleteRecordResponse](m.site, "DeleteRecord", q)
		if err != nil && !fault.Is(err, fault.NotFound) {
			m.rt.Fatalf("unset a rule: %v", err)
		}
		delete(m.rules, name)
		return
	}
	r := m.site.put(record.Set(&labelrulev1.LabelRule{
		Name: name, Labels: map[string]string{tier: draw(m, "value", []string{"a", "b"})},
		When: []*intentv1.Condition{{
			Field: "env", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{environment},
		}},
	}))
	m.rules[name] = r.Record.GetLabelRule()
}

// reinstall asks for a server to be emptied, and does not wait for the outcome.
func (m *model) reinstall() {
	m.publish(topology.VerbReinstall, reinstall(draw(m, "server", m.servers).id))
}

// endReinstall ends the removals of a server that is reinstalled, and beats as its emptied executor.
func (m *model) endReinstall(h *host, by string) {
	again := false
	for agent, i := range m.instances(h) {
		switch {
		case h.open[agent] != nil:
			m.end(h, agent, true)
		case i.TaskId == "":
			m.open(h, i)
		default:
			again = again || i.State == instancev1.State_STATE_FAILED
		}
	}
	if again { // nothing tries an undone removal by itself
		m.accepted(topology.VerbReinstall, reinstall(h.id))
	}
	if len(m.instances(h)) == 0 {
		h.has = map[string]*reportv1.Found{}
		m.emptyBeat(h.id, by)
	}
}

// server returns a copy of what a replica has of a server.
func (m *model) server(h *host) *serverv1.Server {
	return must[*registryv1.GetServerResponse](m.site, "GetServer", &registryv1.GetServerRequest{Server: h.id}).Server
}

// fromLobby has a machine without a token join under a name, and returns its id.
func (m *model) fromLobby(name, environment string) (id string) {
	machine := newMachine(m.t, name)
	q := &registryv1.AcceptLobbyRequest{
		Fingerprints: []string{lobby.Fingerprint(machine.public)}, Environment: environment,
	}
	polltest.Eventually(m.t, "the machine is accepted", func() bool { // each replica hears a knock for itself
		_, _ = m.knock(machine, machine)
		r, err := ask[*registryv1.AcceptLobbyResponse](m.site, "AcceptLobby", q)
		return err == nil && len(r.Accepted) == 1
	})
	return m.untilJoined(machine).ServerId
}

// checkLabels checks that every server has the labels that the rules say: of two rules the one whose name is first.
func (m *model) checkLabels() {
	for _, h := range m.servers {
		if m.life(h) != serverv1.Life_LIFE_ALIVE {
			continue
		}
		polltest.Eventually(m.t, "the labels of "+h.name+" follow from the rules", func() bool {
			is, want := m.server(h), map[string]string{}
			for _, name := range slices.Backward(slices.Sorted(maps.Keys(m.rules))) {
				if slices.Contains(m.rules[name].When[0].Values, is.Environment) {
					want[tier] = name + "=" + m.rules[name].Labels[tier]
				}
			}
			have := map[string]string{}
			for label, by := range is.RuleLabels {
				have[label] = by.Rule + "=" + by.Value
			}
			return cmp.Equal(have, want)
		})
	}
}
