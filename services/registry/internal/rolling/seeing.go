package rolling

import (
	"cmp"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// seeing is the view as it will be after the changes of a rollout that are planned so far.
type seeing struct {
	Reader
	planned map[string]map[string]*instancev1.Instance // by server and agent; nil for one that goes
}

// see adds a change.
func (s *seeing) see(c intent.Change) {
	if s.planned[c.Server.Id] == nil {
		s.planned[c.Server.Id] = map[string]*instancev1.Instance{}
	}
	if c.To == nil {
		s.planned[c.Server.Id][c.Agent] = nil
		return
	}
	next := &instancev1.Instance{
		Id: ident.From("planned", c.Server.Id, c.Agent), ServerId: c.Server.Id, Agent: c.Agent,
	}
	if have, ok := s.Reader.Instance(c.Server.Id, c.Agent); ok {
		next = proto.CloneOf(have)
	}
	next.Wanted, next.Observed, next.Configuration = c.To, c.To, c.Configuration
	s.planned[c.Server.Id][c.Agent] = next
}

func (s *seeing) Instance(server, agent string) (*instancev1.Instance, bool) {
	if i, ok := s.planned[server][agent]; ok {
		return i, i != nil
	}
	return s.Reader.Instance(server, agent)
}

func (s *seeing) InstancesOf(server string) iter.Seq[*instancev1.Instance] {
	planned := s.planned[server]
	if len(planned) == 0 {
		return s.Reader.InstancesOf(server)
	}
	var all []*instancev1.Instance
	for i := range s.Reader.InstancesOf(server) {
		if _, ok := planned[i.Agent]; !ok {
			all = append(all, i)
		}
	}
	for _, i := range planned {
		if i != nil {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *instancev1.Instance) int { return cmp.Compare(a.Agent, b.Agent) })
	return slices.Values(all)
}

// inTurn returns the steps of a rollout in the order in which they are planned: what goes before what comes, an agent
// that others need after those when it goes and before them otherwise.
func inTurn(r Reader, steps []*intentv1.Step) []*intentv1.Step {
	out := slices.Clone(steps)
	rank := func(s *intentv1.Step) int {
		in := Ask(s, nil)
		depth := depthOf(r, intent.AgentOf(in), 0)
		if in.GetRemove() != nil {
			return -1 - depth
		}
		return depth
	}
	slices.SortStableFunc(out, func(a, b *intentv1.Step) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// mostDepth ends the walk along dependencies, which the registry keeps free of cycles.
const mostDepth = 64

// depthOf returns how long the longest chain of agents is that an agent needs.
func depthOf(r Reader, agent string, at int) (depth int) {
	a, _ := r.Agent(agent)
	if at > mostDepth {
		return 0
	}
	for _, d := range a.GetDependencies() {
		depth = max(depth, depthOf(r, d, at+1)+1)
	}
	return depth
}

// manifestOf returns the manifest of an image, or one that says nothing more than its version.
func manifestOf(r Reader, agent string, ref *imagev1.Ref) *imagev1.Manifest {
	if ref == nil {
		return nil
	}
	if i, ok := r.Image(ref.Id); ok {
		return i.Manifest
	}
	return &imagev1.Manifest{Agent: agent, Version: ref.Version}
}

// needs returns the agents that an agent needs, directly or by way of others.
func needs(r Reader, agent string) map[string]bool {
	out := map[string]bool{}
	for todo := []string{agent}; len(todo) > 0; todo = todo[1:] {
		var a *agentv1.Agent
		a, _ = r.Agent(todo[0])
		for _, d := range a.GetDependencies() {
			if !out[d] {
				out[d] = true
				todo = append(todo, d)
			}
		}
	}
	return out
}
