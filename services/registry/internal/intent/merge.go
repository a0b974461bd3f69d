package intent

import (
	"cmp"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/secret"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// merge merges the metadata of an agent's instance on a server, whose own values are given, or returns why not.
type merge func(s *serverv1.Server, own map[string]string) (*instancev1.Configuration, *apiv1.Refusal)

// layersOf returns the layers of metadata, from the first to the one that wins, and what a person calls each.
func layersOf(
	r Reader, agent *agentv1.Agent, environment string, own map[string]string,
) (names []string, layers []map[string]string) {
	application, _ := r.Application(agent.Application)
	e, _ := r.Environment(environment)
	names = []string{
		"application " + agent.Application, "agent " + agent.Name, "environment " + environment,
		"default of environment " + environment, "instance",
	}
	return names, []map[string]string{
		application.GetMetadata(), agent.Metadata, e.GetMetadata(), e.GetDefaults()[agent.Name].GetMetadata(), own,
	}
}

// merger returns a function that merges the metadata of an agent's instances. Most instances have no
// values of their own, so those of one environment share a result: a fleet is large.
func merger(o *outcome, agent *agentv1.Agent) merge {
	type result struct {
		configuration *instancev1.Configuration
		why           *apiv1.Refusal
	}
	check := newSchemaCheck(agent, o.ask.Secrets)
	shared := map[string]result{} // by environment
	return func(s *serverv1.Server, own map[string]string) (*instancev1.Configuration, *apiv1.Refusal) {
		if c, ok := shared[s.Environment]; ok && len(own) == 0 {
			return c.configuration, c.why
		}
		names, layers := layersOf(o.reader, agent, s.Environment, own)
		all := metadata.Merge(layers...)
		var c result
		if err := cmp.Or(metadata.Check(all), metadata.CheckKeptSecret(layers...)); err != nil {
			c.why = fault.RefusalOf(err)
		} else if c.why = check.refusal(all, names, layers); c.why == nil {
			c.configuration = configurationOf(own, all)
		}
		if len(own) == 0 {
			shared[s.Environment] = c
		}
		return c.configuration, c.why
	}
}

// Merged returns a function that merges the metadata of instances as it is now, and returns its digest, or why it
// cannot be merged. Neither it nor what it reads may change meanwhile. Instances without an agent have their own
// digest.
func Merged(r Reader, secrets *secret.Key) func(*instancev1.Instance) ([]byte, *apiv1.Refusal) {
	mergers := map[string]merge{}
	return func(i *instancev1.Instance) ([]byte, *apiv1.Refusal) {
		agent, known := r.Agent(i.Agent)
		server, alive := r.Server(i.ServerId)
		if !known || !alive {
			return i.GetConfiguration().GetDigest(), nil
		}
		m := mergers[i.Agent]
		if m == nil {
			m = merger(&outcome{question: question{reader: r, ask: Ask{Secrets: secrets}}}, agent)
			mergers[i.Agent] = m
		}
		c, why := m(server, i.GetConfiguration().GetOwn())
		return c.GetDigest(), why
	}
}

// configurationOf returns the configuration with an instance's own values and all of them merged; nil without any.
func configurationOf(own, all map[string]string) *instancev1.Configuration {
	if len(own) == 0 {
		own = nil
	}
	if len(all) == 0 && own == nil {
		return nil
	}
	return &instancev1.Configuration{Own: own, Metadata: all, Digest: metadata.Digest(all)}
}
