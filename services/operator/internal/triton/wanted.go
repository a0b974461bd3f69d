package triton

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

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
				"--undeclared imports it", output.Plural(n, "server")))
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
