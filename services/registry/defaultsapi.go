package registry

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// maxDefaults bounds the defaults of one environment.
const maxDefaults = 256

// defaultsAPI answers requests about the defaults of environments.
type defaultsAPI struct {
	records *records
}

// set records a default. It is safe to run twice: what is set already, and due nowhere, writes nothing.
func (a *defaultsAPI) set(
	ctx context.Context, c bus.Caller, q *registryv1.SetDefaultRequest,
) (*registryv1.SetDefaultResponse, error) {
	if err := a.check(q); err != nil {
		return nil, err
	}
	err := a.records.change(ctx, func() ([]ledger.Draft, error) {
		have, err := a.fits(q)
		if err != nil {
			return nil, err
		}
		fact := defaults.SetFact(q)
		fact.Owners = withOwner(have.GetOwners(), q.Owner)
		if err := checkOwners(fact.Owners); err != nil {
			return nil, err
		}
		same := sameDefault(have, fact)
		if same && q.KeepReach {
			return nil, nil
		}
		p := defaults.PlanSet(a.records.view, q)
		err = cmp.Or(checkDefaultRevision(q.Environment, q.Agent, have, q.IfRevision), current(q.PlanSha256, p))
		if err != nil {
			return nil, err
		}
		if same && p.Touched() == 0 {
			return nil, nil
		}
		return []ledger.Draft{a.records.byCaller(c, ledger.Environment, q.Environment, fact)}, nil
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.SetDefaultResponse{}
	err = a.records.decider.Query(ctx, func() error {
		e, _ := a.records.view.Environment(q.Environment)
		d := e.GetDefaults()[q.Agent]
		if d == nil { // unset since
			return unknownDefault(q.Environment, q.Agent, e)
		}
		resp.Default = proto.CloneOf(d)
		return nil
	})
	return answer(resp, err)
}

// check checks the fields of a request that need no view.
func (a *defaultsAPI) check(q *registryv1.SetDefaultRequest) error {
	switch q.Reach {
	case environmentv1.Reach_REACH_NEW, environmentv1.Reach_REACH_ALL:
	default:
		return invalid(code.BadReach, "the default of agent %q says neither new servers nor all", q.Agent)
	}
	if err := metadata.Check(q.Metadata); err != nil {
		return err
	}
	return metadata.CheckSealed(a.records.secrets, q.Metadata)
}

// fits checks a request against the view, and returns the default that it replaces, or nil. It must run inside Read.
func (a *defaultsAPI) fits(q *registryv1.SetDefaultRequest) (*environmentv1.Default, error) {
	view := a.records.view
	e, ok := view.Environment(q.Environment)
	if !ok {
		return nil, notFound(selector.UnknownEnvironment(view, q.Environment))
	}
	agent, ok := view.Agent(q.Agent)
	if !ok {
		return nil, notFound(intent.UnknownAgent(view, q.Agent))
	}
	have := e.Defaults[q.Agent]
	if have == nil && len(e.Defaults) >= maxDefaults {
		return nil, invalid(code.TooManyDefaults, "environment %q has %d defaults; %d are the most", e.Name,
			len(e.Defaults), maxDefaults)
	}
	if err := metadata.CheckKeptSecret(have.GetMetadata(), q.Metadata); err != nil {
		return nil, err
	}
	return have, a.choiceExists(e, agent, q)
}

// choiceExists refuses an image, a version or a channel that does not exist. An image for the platform of a server may
// come later.
func (a *defaultsAPI) choiceExists(
	e *environmentv1.Environment, agent *agentv1.Agent, q *registryv1.SetDefaultRequest,
) error {
	_, refusal := image.Choose(a.records.view, image.Want{Agent: agent, Choice: q.Image, Channel: e.Channel})
	if refusal == nil {
		return nil
	}
	switch {
	case refusal.Code == code.UnknownChannel, refusal.Code == code.WrongKind,
		refusal.Code == code.NoMatch && image.Named(q.Image):
		refusal.Component = ledger.Registry
		return notFound(refusal)
	}
	return nil
}

func sameDefault(have *environmentv1.Default, next *environmentv1.DefaultSet) bool {
	return have != nil && have.Reach == next.Reach && proto.Equal(have.Image, next.Image) &&
		maps.Equal(have.Metadata, next.Metadata) && sameOwners(have.Owners, next.Owners)
}

// current refuses a request whose plan no longer holds; without a plan it does not.
func current(sum []byte, p *defaults.Planned) error {
	if len(sum) == 0 || bytes.Equal(sum, p.Sum()) {
		return nil
	}
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code.PlanStale, Component: ledger.Registry,
		Message: fmt.Sprintf("the plan no longer holds: now %d installations would be due or wait", p.Touched()),
		Try:     "run the command again; it makes a new plan",
	})
}

// unset ends a default.
func (a *defaultsAPI) unset(
	ctx context.Context, c bus.Caller, q *registryv1.UnsetDefaultRequest,
) (*registryv1.UnsetDefaultResponse, error) {
	err := a.records.change(ctx, func() ([]ledger.Draft, error) {
		e, ok := a.records.view.Environment(q.Environment)
		if !ok {
			return nil, notFound(selector.UnknownEnvironment(a.records.view, q.Environment))
		}
		if e.Defaults[q.Agent] == nil {
			return nil, unknownDefault(q.Environment, q.Agent, e)
		}
		if err := checkDefaultRevision(q.Environment, q.Agent, e.Defaults[q.Agent], q.IfRevision); err != nil {
			return nil, err
		}
		unset := &environmentv1.DefaultUnset{Agent: q.Agent}
		return []ledger.Draft{a.records.byCaller(c, ledger.Environment, q.Environment, unset)}, nil
	})
	return answer(&registryv1.UnsetDefaultResponse{}, err)
}

func unknownDefault(environment, agent string, e *environmentv1.Environment) error {
	return notFound(&apiv1.Refusal{
		Code:    code.UnknownDefault,
		Message: fmt.Sprintf("environment %q has no default for agent %q", environment, agent),
		Nearest: nearest.Name(agent, maps.Keys(e.GetDefaults())),
		Try:     "garrison env default list " + environment,
	})
}

// list lists the defaults of an environment or of a server, with what became of them.
func (a *defaultsAPI) list(
	ctx context.Context, _ bus.Caller, q *registryv1.ListDefaultsRequest,
) (*registryv1.ListDefaultsResponse, error) {
	if (q.Environment == "") == (q.Server == "") {
		return nil, invalid(code.Malformed, "an environment or a server must be named, and not both")
	}
	resp := &registryv1.ListDefaultsResponse{}
	var servers []string
	err := a.records.decider.Query(ctx, func() (err error) {
		name := q.Environment
		if q.Server != "" {
			s, err := a.records.find(q.Server)
			if err != nil {
				return err
			}
			name, servers = s.Environment, []string{s.Id}
		}
		e, ok := a.records.view.Environment(name)
		if !ok && q.Server == "" {
			return notFound(selector.UnknownEnvironment(a.records.view, name))
		}
		resp.Defaults = defaults.Rows(a.records.view, e)
		if q.Server == "" {
			servers = a.living(name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp.Members = uint32(len(servers))
	for part := range slices.Chunk(servers, defaults.Batch) { // the view stands still for one part at a time
		a.records.follower.Read(func() {
			for _, row := range resp.Defaults {
				defaults.Count(a.records.view, row, part)
			}
		})
	}
	slices.SortFunc(resp.Defaults, func(x, y *registryv1.DefaultRow) int { return strings.Compare(x.Agent, y.Agent) })
	return resp, nil
}

// living returns the ids of the living servers of an environment. It must run inside Read.
func (a *defaultsAPI) living(environment string) []string {
	var out []string
	for s := range a.records.view.ServersWhere(environment, nil) {
		if s.Life == serverv1.Life_LIFE_ALIVE {
			out = append(out, s.Id)
		}
	}
	return out
}
