package triton

import (
	"cmp"
	"maps"
	"slices"
)

// Placed is an agent on a server.
type Placed struct {
	Server, Agent string // the server's id
	Version       string // empty when it is not known
	UUID          string // of the instance, where SAPI or the server knows one
}

// spot is where an agent can be once.
type spot struct{ server, agent string }

// place lists which agents are on which servers. What a server says of itself counts: its agents in CNAPI, or else in
// its sysinfo. An instance of SAPI says it for a server of which the dump has no such list; one that the list of its
// server lacks is a record that outlived its agent, and is skipped.
func (c *convert) place() {
	on := map[spot]Placed{}
	says := map[string]bool{} // the servers with a list of their own
	for id, f := range sorted(c.servers) {
		agents := f.list("agents")
		if len(agents) == 0 {
			agents = f.within("sysinfo").list("SDC Agents")
		}
		says[id] = len(agents) > 0
		for _, a := range agents {
			name := a.text("name")
			on[spot{id, name}] = Placed{id, name, a.text("version"), a.uuid("uuid")}
		}
	}
	for id, f := range sorted(c.instances) {
		if f.text("type") == "agent" { // otherwise a virtual machine
			c.placeInstance(id, f, on, says)
		}
	}
	c.out.Placed = slices.SortedFunc(maps.Values(on), func(a, b Placed) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Server, b.Server))
	})
}

// placeInstance adds an instance of SAPI to what is on the servers, or says why not.
func (c *convert) placeInstance(id string, f found, on map[spot]Placed, says map[string]bool) {
	agent, known := c.agents[f.uuid("service_uuid")]
	server := f.within(paramsName).uuid("server_uuid")
	have, listed := on[spot{server, agent}]
	switch {
	case !known:
		c.skip(string(instance), id, "service "+f.uuid("service_uuid")+": the dump does not have it")
	case server == "" && listsUUID(on, id):
		// the server's own list says where it is
	case server == "":
		c.skip(string(instance), id, "an instance of "+agent+" that does not say on which server it is")
	case listed:
		have.UUID = cmp.Or(have.UUID, id)
		on[spot{server, agent}] = have
	case says[server]:
		c.skip(string(instance), id, "an instance of "+agent+" on server "+server+", whose own list of agents lacks it")
	default:
		version := c.Dump.images[f.within(paramsName).uuid("image_uuid")].text("version")
		on[spot{server, agent}] = Placed{server, agent, version, id}
	}
}

// listsUUID reports whether a server lists an instance by its UUID.
func listsUUID(on map[spot]Placed, id string) bool {
	for _, p := range on {
		if p.UUID == id {
			return true
		}
	}
	return false
}
