package intent

import (
	"fmt"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// configure merges the agent's metadata anew on every selected server that has it, after
// it changed the instance's own values. The image stays.
func (o *outcome) configure(q *intentv1.Configure) *apiv1.Refusal {
	agent, refusal := o.agent(q.GetAgent())
	if refusal != nil {
		return refusal
	}
	if refusal := checkOwn(q); refusal != nil {
		return refusal
	}
	targets, refusal := selector.Resolve(o.reader, q.GetOn())
	if refusal != nil {
		return refusal
	}
	merge := o.merger(agent)
	for _, s := range targets {
		have, _ := o.reader.Instance(s.Id, agent.Name)
		if have.GetWanted() == nil {
			o.passed++ // it lacks the agent, or the agent is leaving
			continue
		}
		merged, refusal := merge(s, ownAfter(have, q))
		if refusal != nil {
			return refusal
		}
		o.bringOrKeep(have, want{s.Id, agent.Name, have.Wanted, merged})
	}
	if int(o.passed) == len(targets) {
		return noInstances(agent.Name, len(targets), "garrison install "+agent.Name+" --on SELECTOR")
	}
	return nil
}

func checkOwn(q *intentv1.Configure) *apiv1.Refusal {
	if err := metadata.Check(q.GetSet()); err != nil {
		return fault.RefusalOf(err)
	}
	for _, name := range q.GetUnset() {
		if err := metadata.CheckName(name); err != nil {
			return fault.RefusalOf(err)
		}
		if _, both := q.GetSet()[name]; both {
			return &apiv1.Refusal{Code: metadata.CodeBad, Message: fmt.Sprintf("value %q is to be set and to be taken away", name)}
		}
	}
	return nil
}

// ownAfter gives the instance's own values as the intent wants them.
func ownAfter(have *instancev1.Instance, q *intentv1.Configure) map[string]string {
	own := metadata.Merge(have.GetConfiguration().GetOwn(), q.GetSet())
	for _, name := range q.GetUnset() {
		delete(own, name)
	}
	return own
}

// merger merges the metadata of instances of an agent. Most instances have no values of
// their own, so those of one environment share what was merged: a fleet is large.
func (o *outcome) merger(agent *agentv1.Agent) func(*serverv1.Server, map[string]string) (*instancev1.Configuration, *apiv1.Refusal) {
	application, _ := o.reader.Application(agent.Application)
	shared := map[string]*instancev1.Configuration{} // by environment
	return func(s *serverv1.Server, own map[string]string) (*instancev1.Configuration, *apiv1.Refusal) {
		if c, ok := shared[s.Environment]; ok && len(own) == 0 {
			return c, nil
		}
		environment, _ := o.reader.Environment(s.Environment)
		all := metadata.Merge(application.GetMetadata(), agent.Metadata, environment.GetMetadata(), own)
		if err := metadata.Check(all); err != nil {
			refusal := fault.RefusalOf(err)
			refusal.Message += fmt.Sprintf(" (merged for server %q, %s)", s.Name, ident.Short(s.Id))
			return nil, refusal
		}
		if len(all) == 0 {
			shared[s.Environment] = nil
			return nil, nil
		}
		c := &instancev1.Configuration{Own: own, Metadata: all, Digest: metadata.Digest(all)}
		if len(own) == 0 {
			c.Own = nil
			shared[s.Environment] = c
		}
		return c, nil
	}
}

// sameConfiguration says whether two configurations are the same. An instance's own
// values count even where they change nothing now: they win over what changes later.
func sameConfiguration(a, b *instancev1.Configuration) bool {
	return slices.Equal(a.GetDigest(), b.GetDigest()) && maps.Equal(a.GetOwn(), b.GetOwn())
}
