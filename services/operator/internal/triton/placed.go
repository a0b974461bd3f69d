package triton

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/version"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
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
// its sysinfo. An instance of SAPI says it for a server whose list the dump does not have; one that the list of its
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

// Wanted is an agent at a version, and how many servers have it according to the dump.
type Wanted struct {
	Agent, Version string // an empty version is not known
	Servers        int
}

// wanted lists what is wanted where, and adds it as defaults of the environment where a catalog is given.
func (c *convert) wanted() error {
	c.place()
	counts := map[Wanted]int{}
	for _, p := range c.out.Placed {
		counts[Wanted{Agent: p.Agent, Version: p.Version}]++
	}
	for w, n := range counts {
		c.out.Wanted = append(c.out.Wanted, Wanted{w.Agent, w.Version, n})
	}
	slices.SortFunc(c.out.Wanted, func(a, b Wanted) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), -cmp.Compare(a.Servers, b.Servers),
			-version.Compare(a.Version, b.Version), cmp.Compare(a.Version, b.Version))
	})
	c.undeclared()
	c.out.Placed = slices.DeleteFunc(c.out.Placed, func(p Placed) bool { return !c.known(p.Agent) })
	if c.options.Catalog == nil {
		return nil
	}
	return c.defaults()
}

// undeclared says which agents are on servers and no service declares, or declares them.
func (c *convert) undeclared() {
	wanted := c.byAgent()
	for _, agent := range slices.Sorted(maps.Keys(wanted)) {
		n := 0
		for _, w := range wanted[agent] {
			n += w.Servers
		}
		switch {
		case c.names[declare.Agents][agent] != "":
		case c.options.Undeclared && ident.CheckName("agent", agent) == nil:
			c.names[declare.Agents][agent] = agent
			c.add(declare.Agents, agent, &agentv1.Agent{Kind: c.kind(agent)}, c.first(c.servers))
		case !c.known(agent):
			c.skip(declare.Agents.Word, agent, fmt.Sprintf("on %s, and no service of the dump declares it; "+
				"--undeclared imports it", listing.Plural(n, "server")))
		}
	}
}

// byAgent returns what is wanted by agent; of each, what most servers have first.
func (c *convert) byAgent() map[string][]Wanted {
	out := map[string][]Wanted{}
	for _, w := range c.out.Wanted {
		out[w.Agent] = append(out[w.Agent], w)
	}
	return out
}

// defaults adds a default for each agent, at the version that its service wants, or else that most servers have.
func (c *convert) defaults() error {
	intended, wanted := c.intended(), c.byAgent()
	for _, agent := range slices.Sorted(maps.Keys(wanted)) {
		if !c.known(agent) {
			continue
		}
		v := cmp.Or(intended[agent], wanted[agent][0].Version)
		name := declare.DefaultName(c.options.Environment, agent)
		have, err := c.options.Catalog(agent)
		switch {
		case err != nil:
			return err
		case !slices.Contains(have, v):
			c.skip(declare.Defaults.Word, name, fmt.Sprintf("the catalog has no image %s@%s; import it, and then the "+
				"dump again", agent, v))
			continue
		}
		c.add(declare.Defaults, name, &environmentv1.Default{
			Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: v}},
			Reach: environmentv1.Reach_REACH_NEW,
		}, c.first(c.servers))
	}
	return nil
}

// intended returns the versions that services want, by agent. A server knows the version of an image whose manifest is
// not in the dump.
func (c *convert) intended() map[string]string {
	versions := map[string]string{} // by image
	for _, f := range sorted(c.servers) {
		for _, a := range f.list("agents") {
			versions[a.uuid("image_uuid")] = a.text("version")
		}
	}
	for id, f := range sorted(c.Dump.images) {
		versions[id] = f.text("version")
	}
	out := map[string]string{}
	for id, f := range sorted(c.services) {
		image := f.within(paramsName).uuid("image_uuid")
		if agent := c.agents[id]; agent != "" && image != "" && versions[image] != "" {
			out[agent] = versions[image]
		}
	}
	return out
}
