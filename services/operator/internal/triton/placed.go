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

	Own map[string]string // the instance's metadata, and its params as one more value; nil without any
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
			on[spot{id, name}] = Placed{Server: id, Agent: name, Version: a.text("version"), UUID: a.uuid("uuid")}
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
	at := spot{server, agent}
	if lists, ok := listsUUID(on, id); server == "" && ok {
		at = lists // the server's own list says where it is
	}
	have, listed := on[at]
	switch {
	case !known:
		c.skip(string(instance), id, "service "+f.uuid("service_uuid")+": the dump does not have it")
	case listed:
		have.UUID, have.Own = cmp.Or(have.UUID, id), c.own(id, f)
		on[at] = have
	case server == "":
		c.skip(string(instance), id, "an instance of "+agent+" that does not say on which server it is")
	case says[server]:
		c.skip(string(instance), id, "an instance of "+agent+" on server "+server+", whose own list of agents lacks it")
	default:
		version := c.Dump.images[f.within(paramsName).uuid("image_uuid")].text("version")
		on[at] = Placed{server, agent, version, id, c.own(id, f)}
	}
}

// own returns the metadata of an instance as own values. On which server it is, and which image it has, is no part.
func (c *convert) own(id string, f found) map[string]string {
	o := maps.Clone(f.object)
	params := maps.Clone(f.within(paramsName))
	delete(params, "server_uuid")
	o[paramsName] = map[string]any(params)
	return c.values(string(instance), id, o)
}

// listsUUID returns where a server lists an instance by its UUID.
func listsUUID(on map[spot]Placed, id string) (spot, bool) {
	for at, p := range on {
		if p.UUID == id {
			return at, true
		}
	}
	return spot{}, false
}
