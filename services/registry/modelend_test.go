package registry

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// The model's ends: of replicas, and of servers.

// revive starts a replica in the place of each that was killed.
func (m *model) revive() {
	for n := range m.replicas {
		if m.replicas[n].Registry == nil {
			m.replicas[n].Registry, m.replicas[n].stop = m.registry()
		}
	}
	m.follow()
}

// follow has the site use a replica that runs.
func (m *model) follow() {
	for _, r := range m.replicas {
		if r.Registry != nil {
			m.r, m.stop = r.Registry, r.stop
			return
		}
	}
}

// restart stops a replica and starts another one in its place.
func (m *model) restart() {
	m.revive()
	n := rapid.IntRange(0, 1).Draw(m.rt, "replica")
	m.replicas[n].stop()
	m.replicas[n].Registry = nil
	m.revive()
}

// kill kills a replica while it works on intents and reports; the other one goes on alone.
func (m *model) kill() {
	m.revive()
	n := rapid.IntRange(0, 1).Draw(m.rt, "replica")
	for range rapid.IntRange(1, 4).Draw(m.rt, "intents") {
		m.ask()
	}
	m.report()
	m.site.kill(m.replicas[n].Registry)
	m.replicas[n].stop()
	m.replicas[n].Registry = nil
	m.follow()
}

// decommission requests the end of a server, and does not wait for the outcome. A lost one keeps what it has.
func (m *model) decommission() {
	h := draw(m, "server", m.servers)
	m.publish(topology.VerbDecommission, decommission(h.id, rapid.Bool().Draw(m.rt, "lost")))
}

// life returns the life of a server, up to the end of the ledger; unspecified once it is forgotten.
func (m *model) life(h *host) (life serverv1.Life) {
	m.instances(h) // which catches up
	m.r.follower.Read(func() {
		s, _ := m.r.records.View.Server(h.id)
		life = s.GetLife()
	})
	return life
}

// forget forgets a server that is dead, and enrols another one under its name. It tries that with a living one too.
func (m *model) forget() {
	h := draw(m, "server", m.servers)
	dead := m.life(h) == serverv1.Life_LIFE_DEAD
	q := &registryv1.ForgetServerRequest{Server: h.id, Leak: true}
	_, err := ask[*registryv1.ForgetServerResponse](m.site, "ForgetServer", q)
	have := codeOf(err)
	switch {
	case dead && have != "none":
		m.rt.Fatalf("forget a dead server: %v", err)
	case have == "none": // it may have died meanwhile
		m.replace(h)
	case have != code.NotDead:
		m.rt.Fatalf("forget a server that is under management: %v", err)
	}
}

// replace takes a server out of the model, and enrols another one under its name.
func (m *model) replace(h *host) {
	m.servers = slices.DeleteFunc(m.servers, func(other *host) bool { return other == h })
	m.former = append(m.former, h)
	m.enrolled(h.name, draw(m, "environment", m.environments()))
}

// endDying ends the removals of a server that is dying, and reports whether nothing is left to do.
func (m *model) endDying(h *host) bool {
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
		m.accepted(topology.VerbDecommission, decommission(h.id, false))
	}
	return false
}

// endDead ends the tasks that outlived their server, and reports that nothing is left to do.
func (m *model) endDead(h *host) bool {
	for agent := range h.open {
		m.end(h, agent, false)
	}
	h.has = map[string]*reportv1.Found{}
	return true
}

// checkEnds checks that nothing is left of servers that ended. What an intent wanted while its server died ends as a
// duty.
func (m *model) checkEnds() {
	polltest.Eventually(m.t, "no duty is left", func() bool {
		left := 0
		for _, r := range m.running() {
			r.follower.Read(func() { left += len(slices.Collect(r.records.View.ServersWithDuties())) })
		}
		return left == 0
	})
	for _, h := range slices.Concat(m.servers, m.former) {
		dead := m.life(h) != serverv1.Life_LIFE_ALIVE
		for _, agent := range modelAgents {
			there := m.checkOneAtATime(ledger.Key(h.id, agent))
			if dead && there != "" {
				m.rt.Fatalf("server %s is dead, and instance %s of %s is there", h.id, there, agent)
			}
		}
		if dead && len(m.instances(h)) > 0 {
			m.rt.Fatalf("server %s is dead, and has %v", h.id, m.instances(h))
		}
	}
}
