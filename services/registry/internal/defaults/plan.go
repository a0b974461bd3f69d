package defaults

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/secret"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// later is a sequence after every fact of the ledger.
const later = math.MaxUint64

// Planned is what a change of a default or of servers' environments would install.
type Planned struct {
	Plans                             []intent.Planned
	Servers, Present, Beyond, Already int // as in PlanDefaultsResponse
	sum                               []string
}

// Sum returns the digest over everything that the plan says it would touch.
func (p *Planned) Sum() []byte {
	sum := sha256.New()
	for _, line := range p.sum {
		fmt.Fprintln(sum, line)
	}
	return sum.Sum(nil)
}

// Touched returns how many installations are due or wait.
func (p *Planned) Touched() int {
	n := 0
	for _, one := range p.Plans {
		n += int(one.Changed + one.LeftOut)
	}
	return n
}

// Installs returns how many installations are due and could begin now.
func (p *Planned) Installs() int {
	n := 0
	for _, one := range p.Plans {
		n += int(one.Changed)
	}
	return n
}

// add plans an agent's default for the servers on which it is due.
func (p *Planned) add(
	r Reader, e *environmentv1.Environment, agent string, servers iter.Seq[*serverv1.Server], at time.Time,
) {
	d, dueOn := e.Defaults[agent], []string{}
	for s := range servers {
		switch stateOf(r, s, agent, d) {
		case present, waiting: // what waits, a rollout brings
			p.Present++
		case due:
			dueOn = append(dueOn, s.Id)
		default:
			p.Beyond++
		}
	}
	one := intent.Plan(r, intent.Ask{Actor: d.Actor, Intent: asked(e, agent, d), Due: dueOn, At: at})
	one.Intent.Guard, one.Refusal = nil, nil // what is left out waits, so nothing is refused
	_, left := split(one)
	p.Plans = append(p.Plans, one)
	p.sum = append(p.sum, fmt.Sprintf("%s %x %v", agent, one.TargetsSha256, left))
}

// PlanSet returns what a default would install if it were set now.
func PlanSet(r Reader, q *registryv1.SetDefaultRequest, at time.Time) *Planned {
	have, _ := r.Environment(q.Environment)
	o := afterSet(r, q)
	e := o.environment
	p := &Planned{sum: []string{fmt.Sprintf("set %s %d", e.Name, have.Defaults[q.Agent].GetRevision())}}
	var servers []*serverv1.Server
	members(r, e.Name, func(s *serverv1.Server) { servers = append(servers, s) })
	p.Servers = len(servers)
	p.add(o, e, q.Agent, values(servers), at)
	return p
}

// Broken returns how the values of a default break the schema of its agent in a way in which the metadata did not
// before, or nil.
func Broken(r Reader, q *registryv1.SetDefaultRequest, key *secret.Key) *apiv1.Refusal {
	return intent.Broken(r, afterSet(r, q), q.Agent, q.Environment, key)
}

// afterSet returns the view as it were with a default, in an environment that there is.
func afterSet(r Reader, q *registryv1.SetDefaultRequest) *overlay {
	have, _ := r.Environment(q.Environment)
	e := proto.CloneOf(have)
	if e.Defaults == nil {
		e.Defaults = map[string]*environmentv1.Default{}
	}
	e.Defaults[q.Agent] = environment.WithDefault(have.Defaults[q.Agent], SetFact(q), later)
	return &overlay{Reader: r, environment: e}
}

// SetFact returns the fact that a request to set a default leads to, without owners.
func SetFact(q *registryv1.SetDefaultRequest) *environmentv1.DefaultSet {
	return &environmentv1.DefaultSet{
		Agent: q.Agent, Image: q.Image, Metadata: q.Metadata, Reach: q.Reach, KeepReach: q.KeepReach,
		AtOnce: q.AtOnce,
	}
}

// PlanMove returns what the defaults of an environment, or of none, would install on servers that moved there now.
func PlanMove(r Reader, servers []*serverv1.Server, to string, at time.Time) *Planned {
	p := &Planned{sum: []string{"move " + to}}
	o := &overlay{Reader: r, servers: map[string]*serverv1.Server{}, planned: map[string]*instancev1.Instance{}}
	var moved []*serverv1.Server
	for _, s := range servers {
		if s.Environment == to {
			p.Already++
			continue
		}
		next := proto.CloneOf(s)
		next.Environment, next.EnvironmentJoined = to, later
		o.servers[s.Id] = next
		moved = append(moved, next)
		p.sum = append(p.sum, s.Id)
	}
	p.Servers = len(moved)
	e, ok := r.Environment(to)
	if !ok {
		return p
	}
	for _, agent := range Agents(r, e) {
		p.add(o, e, agent, values(moved), at)
		p.Plans[len(p.Plans)-1].Targets("", nil, o.plan)
	}
	return p
}

func values[T any](all []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, x := range all {
			if !yield(x) {
				return
			}
		}
	}
}

// overlay is the view with changes that are only planned.
type overlay struct {
	Reader
	environment *environmentv1.Environment      // nil means as it is
	servers     map[string]*serverv1.Server     // by id
	planned     map[string]*instancev1.Instance // by key
}

// plan adds the instance that a target of a plan would be.
func (o *overlay) plan(t *intentv1.Target) bool {
	if t.Effect == intentv1.Effect_EFFECT_CHANGE {
		o.planned[ledger.Key(t.ServerId, t.Agent)] = &instancev1.Instance{
			ServerId: t.ServerId, Agent: t.Agent, Wanted: t.To,
		}
	}
	return true
}

// Environment returns an environment by name.
func (o *overlay) Environment(name string) (*environmentv1.Environment, bool) {
	if o.environment.GetName() == name && name != "" {
		return o.environment, true
	}
	return o.Reader.Environment(name)
}

// Server returns a server by id.
func (o *overlay) Server(id string) (*serverv1.Server, bool) {
	if s, ok := o.servers[id]; ok {
		return s, true
	}
	return o.Reader.Server(id)
}

// Instance returns the instance of an agent on a server.
func (o *overlay) Instance(server, agent string) (*instancev1.Instance, bool) {
	if i, ok := o.planned[ledger.Key(server, agent)]; ok {
		return i, true
	}
	return o.Reader.Instance(server, agent)
}

// InstancesOf returns the instances on a server, those that are planned last.
func (o *overlay) InstancesOf(server string) iter.Seq[*instancev1.Instance] {
	return func(yield func(*instancev1.Instance) bool) {
		for i := range o.Reader.InstancesOf(server) {
			if !yield(i) {
				return
			}
		}
		for _, i := range o.planned {
			if i.ServerId == server && !yield(i) {
				return
			}
		}
	}
}
