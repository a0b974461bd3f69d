package triton

import (
	"fmt"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// usualKinds are the kinds of agents of Triton that are no daemons.
var usualKinds = map[string]agentv1.Kind{
	"agents_core": agentv1.Kind_KIND_FILES,
	"gz-tools":    agentv1.Kind_KIND_FILES,
}

// application turns a SAPI application into an application.
func (c *convert) application(id string, f found) {
	name := f.text("name")
	if !c.named(declare.Applications, name, id) || !c.take(declare.Applications, name, id) {
		return
	}
	c.apps[id] = name
	c.leaveConfig(declare.Applications, name, f)
	c.add(declare.Applications, name, &applicationv1.Application{
		Metadata: c.values(declare.Applications.Word, name, f.object), Origin: Origin(id),
	}, f)
}

// service turns a SAPI service into an agent.
func (c *convert) service(id string, f found) {
	name := f.text("name")
	isAgent := f.text("type") == "agent"
	if !isAgent && c.options.Reporter == "" {
		c.skip(string(service), name, "a service of virtual machines, which Garrison does not run; --reporter USER "+
			"imports it as an agent of kind external")
		return
	}
	if !c.named(declare.Agents, name, id) || !c.take(declare.Agents, name, id) {
		return
	}
	c.agents[id] = name
	c.leaveConfig(declare.Agents, name, f)
	a := &agentv1.Agent{Kind: c.kind(name), Origin: Origin(id)}
	if !isAgent {
		a.Kind, a.Reporter = agentv1.Kind_KIND_EXTERNAL, c.options.Reporter
	}
	a.Metadata = c.values(declare.Agents.Word, name, f.object)
	if of := f.uuid("application_uuid"); c.apps[of] != "" {
		a.Application = c.apps[of]
	} else {
		c.skip(declare.Agents.Word, name, fmt.Sprintf("application %s: the dump does not have it; the agent is "+
			"imported without one", of))
	}
	c.add(declare.Agents, name, a, f)
}

// kind returns how an agent is run.
func (c *convert) kind(name string) agentv1.Kind {
	if k, ok := c.options.Kinds[name]; ok {
		return k
	}
	if k, ok := usualKinds[name]; ok {
		return k
	}
	return agentv1.Kind_KIND_DAEMON
}

// UsualKind returns the kind of an agent of Triton that is no daemon.
func UsualKind(name string) (k agentv1.Kind, known bool) {
	k, known = usualKinds[name]
	return k, known
}

// named refuses a name that no object can have.
func (c *convert) named(k *declare.Kind, name, id string) bool {
	err := ident.CheckName(k.Word, name)
	if err != nil {
		c.skip(k.Word, name, fmt.Sprintf("UUID %s: %v", id, err))
	}
	return err == nil
}

// leaveConfig says which configuration of an object has no place.
func (c *convert) leaveConfig(k *declare.Kind, name string, f found) {
	if n := len(f.within("manifests")); n > 0 {
		c.skip(k.Word, name, fmt.Sprintf("%d manifests: a template of a configuration is a part of an image", n))
	}
	if len(f.within("metadata_schema")) > 0 {
		c.skip(k.Word, name, "metadata_schema: a schema belongs to an agent: garrison agent update AGENT --schema FILE")
	}
}
