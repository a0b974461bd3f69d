package engine

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/proto"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// brought returns the agents of a list that changes brought, by name. It returns nil unless each is as its task was to
// bring it, in good health, and the list differs from the last one that was reported in nothing else: then the ends of
// the changes say all that is new.
func (p *reporter) brought(found *reportv1.AgentsReport, changes []*steps.Run) map[string]*reportv1.Found {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last == nil || last.GetMore() != found.GetMore() {
		return nil
	}
	out := map[string]*reportv1.Found{}
	for _, r := range changes {
		was, is := entries(last, r.Record.Agent), entries(found, r.Record.Agent)
		if len(is) != 1 || !broughtBy(r.Record, is[0]) {
			return nil
		}
		if len(was) > 1 || len(was) == 1 && (was[0].Trace != is[0].Trace || was[0].InstanceId != is[0].InstanceId) {
			return nil // an unmanaged one, or another instance, is gone: only a list says that
		}
		out[r.Record.Agent] = is[0]
	}
	changed := func(f *reportv1.Found) bool { return out[f.GetAgent()] != nil }
	before := slices.DeleteFunc(slices.Clone(last.GetAgents()), changed)
	after := slices.DeleteFunc(slices.Clone(found.GetAgents()), changed)
	if !slices.EqualFunc(before, after, func(a, b *reportv1.Found) bool { return proto.Equal(a, b) }) {
		return nil
	}
	return out
}

// entries returns the entries of an agent in a list: its instance, and what the inventory does not explain.
func entries(list *reportv1.AgentsReport, agent string) (out []*reportv1.Found) {
	for _, f := range list.GetAgents() {
		if f.GetAgent() == agent {
			out = append(out, f)
		}
	}
	return out
}

// broughtBy reports whether an agent was found as the task of a change was to bring it.
func broughtBy(r *change.Record, f *reportv1.Found) bool {
	switch r.Verb {
	case taskv1.Verb_VERB_INSTALL, taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_CONFIGURE, taskv1.Verb_VERB_RESTART:
	default:
		return false
	}
	return r.TaskID != "" && r.Failure == nil && !r.To.IsSelf() &&
		f.Trace == serverv1.Trace_TRACE_UNSPECIFIED && f.Adoption == nil &&
		f.Health == instancev1.Health_HEALTH_GOOD && f.InstanceId == r.InstanceID && f.Generation == r.Generation &&
		f.GetImage().GetId() == r.To.GetId() && bytes.Equal(f.GetImage().GetDigest(), r.To.Digest()) &&
		bytes.Equal(f.ConfigurationDigest, r.ConfigurationDigest)
}
