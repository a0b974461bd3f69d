package intent

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/secret"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/schema"
)

// Broken refuses a change of declared records after which the metadata that the instances of an agent share in an
// environment break its schema in a way in which they did not before. An instance with own values never counts here:
// the next intent leaves it out and names it.
func Broken(before, after Reader, agent, environment string, key *secret.Key) *apiv1.Refusal {
	next, ok := after.Agent(agent)
	if !ok || next.Schema == "" {
		return nil
	}
	have, _ := before.Agent(agent)
	if have == nil {
		have = &agentv1.Agent{Name: agent}
	}
	was := sharedProblems(before, have, environment, key)
	now := sharedProblems(after, next, environment, key)
	return mismatch(agent, slices.DeleteFunc(now, func(p string) bool { return slices.Contains(was, p) }))
}

// BrokenValues refuses a change of declared records after which the values that an agent and its application set break
// its schema, in a way in which they did not before, whatever its environments and instances set besides. What is
// missing does not count: they may set it.
func BrokenValues(before, after Reader, agent string, key *secret.Key) *apiv1.Refusal {
	next, ok := after.Agent(agent)
	if !ok || next.Schema == "" {
		return nil
	}
	now := setProblems(after, next, key)
	if have, ok := before.Agent(agent); ok {
		was := setProblems(before, have, key)
		now = slices.DeleteFunc(now, func(p string) bool { return slices.Contains(was, p) })
	}
	return mismatch(agent, now)
}

func setProblems(r Reader, agent *agentv1.Agent, key *secret.Key) []string {
	names, layers := layersOf(r, agent, "", nil)
	names, layers = names[:2], layers[:2] // of the application and the agent
	return newSchemaCheck(agent, key).problemsOf(metadata.Merge(layers...), names, layers,
		func(p schema.Problem) bool { return !p.Lacks && len(p.Path) > 0 })
}

func sharedProblems(r Reader, agent *agentv1.Agent, environment string, key *secret.Key) []string {
	names, layers := layersOf(r, agent, environment, nil)
	return newSchemaCheck(agent, key).problems(metadata.Merge(layers...), names, layers)
}

// Outdated counts the instances among some of one agent that a configure would change or leave out.
type Outdated struct {
	*registryv1.Outdated
	outcome *outcome
	merge   merge
}

// NewOutdated returns a count from nothing.
func NewOutdated(r Reader, agent *agentv1.Agent, key *secret.Key) Outdated {
	o := &outcome{question: question{reader: r, ask: Ask{Secrets: key}}}
	return Outdated{&registryv1.Outdated{Agent: agent.Name}, o, merger(o, agent)}
}

// Add counts an instance.
func (c Outdated) Add(i *instancev1.Instance) {
	s, ok := c.outcome.reader.Server(i.ServerId)
	if !ok || i.Wanted == nil {
		return
	}
	merged, why := c.merge(s, i.GetConfiguration().GetOwn())
	switch {
	case why != nil:
		if c.LeftOut++; c.First == nil {
			c.First = aboutServer(why, s)
		}
	case !instance.SameConfiguration(i.Configuration, merged):
		c.Instances++
	}
}

// CheckSchema refuses a schema that cannot be used. An empty text means that the agent has no schema.
func CheckSchema(text string) error {
	if c := newSchemaCheck(&agentv1.Agent{Schema: text}, nil); c.broken != nil {
		return fault.Refuse(fault.Invalid, c.broken)
	}
	return nil
}
