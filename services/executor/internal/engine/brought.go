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
		f := only(found, r.Record.Agent)
		if f == nil || !broughtBy(r.Record, f) {
			return nil
		}
		out[r.Record.Agent] = f
	}
	for agent, f := range out { // an unmanaged one, or another instance, is gone: only a list says that
		before := only(last, agent)
		if !alone(last, agent) || before != nil && (before.Trace != f.Trace || before.InstanceId != f.InstanceId) {
			return nil
		}
	}
	others := func(list *reportv1.AgentsReport) (rest []*reportv1.Found) {
		for _, f := range list.GetAgents() {
			if out[f.GetAgent()] == nil {
				rest = append(rest, f)
			}
		}
		return rest
	}
	same := func(a, b *reportv1.Found) bool { return proto.Equal(a, b) }
	if !slices.EqualFunc(others(last), others(found), same) {
		return nil
	}
	return out
}

// alone reports whether a list has one entry of an agent at most.
func alone(list *reportv1.AgentsReport, agent string) bool {
	n := 0
	for _, f := range list.GetAgents() {
		if f.GetAgent() == agent {
			n++
		}
	}
	return n <= 1
}

// only returns the one entry of an agent in a list; nil where there are none or several, of which some are unmanaged.
func only(list *reportv1.AgentsReport, agent string) (one *reportv1.Found) {
	for _, f := range list.GetAgents() {
		switch {
		case f.GetAgent() != agent:
		case one != nil:
			return nil
		default:
			one = f
		}
	}
	return one
}

// broughtBy reports whether an agent was found as the task of a change was to bring it.
func broughtBy(r *change.Record, f *reportv1.Found) bool {
	switch r.Verb {
	case taskv1.Verb_VERB_INSTALL, taskv1.Verb_VERB_UPGRADE, taskv1.Verb_VERB_CONFIGURE, taskv1.Verb_VERB_RESTART:
	default:
		return false
	}
	return r.TaskID != "" && r.Failure == nil && f.Trace == serverv1.Trace_TRACE_UNSPECIFIED && f.Adoption == nil &&
		f.Health == instancev1.Health_HEALTH_GOOD && f.InstanceId == r.InstanceID && f.Generation == r.Generation &&
		f.GetImage().GetId() == r.To.GetId() && bytes.Equal(f.GetImage().GetDigest(), r.To.Digest()) &&
		bytes.Equal(f.ConfigurationDigest, r.ConfigurationDigest)
}
