package environments

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// maxDefaults bounds the defaults of one environment.
const maxDefaults = 256

// MostAtOnce is on how many servers that are in an environment a default installs unless the request allows more.
const MostAtOnce = intent.MostAtOnce

// Defaults answers requests about the defaults of environments.
type Defaults struct {
	records *records.Records
	work    *Work
}

// NewDefaults returns what answers requests about defaults, which work derives intents from.
func NewDefaults(r *records.Records, work *Work) *Defaults {
	return &Defaults{records: r, work: work}
}

// Set records a default. It is safe to run twice: what is set already, and due nowhere, writes nothing.
func (a *Defaults) Set(
	ctx context.Context, c bus.Caller, q *registryv1.SetDefaultRequest,
) (*registryv1.SetDefaultResponse, error) {
	if err := a.check(q); err != nil {
		return nil, err
	}
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		have, err := a.fits(q)
		if err != nil {
			return nil, err
		}
		fact := defaults.SetFact(q)
		fact.Owners = request.WithOwner(have.GetOwners(), q.Owner)
		if err := request.CheckOwners(fact.Owners); err != nil {
			return nil, err
		}
		same := sameDefault(have, fact) && (q.KeepReach || have.GetAtOnce() == fact.AtOnce)
		if same && q.KeepReach {
			return nil, nil
		}
		p := defaults.PlanSet(a.records.View, q, a.records.Now())
		err = cmp.Or(checkDefaultRevision(q.Environment, q.Agent, have, q.IfRevision), current(q.PlanSha256, p))
		if err != nil {
			return nil, err
		}
		if same && p.Touched() == 0 {
			return nil, nil
		}
		if err := a.mayInstall(q, p); err != nil {
			return nil, err
		}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Environment, q.Environment, fact)}, nil
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.SetDefaultResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		e, _ := a.records.View.Environment(q.Environment)
		d := e.GetDefaults()[q.Agent]
		if d == nil { // unset since
			return unknownDefault(q.Environment, q.Agent, e)
		}
		resp.Default = proto.CloneOf(d)
		return nil
	})
	return request.Answer(resp, err)
}

// mayInstall refuses a default that would reach many servers without waves, or servers of an environment that is held
// or outside its windows. It must run inside Read.
func (a *Defaults) mayInstall(q *registryv1.SetDefaultRequest, p *defaults.Planned) error {
	touched, n := p.Touched(), p.Installs()
	if touched == 0 {
		return nil
	}
	e, _ := a.records.View.Environment(q.Environment)
	chosen, values := intent.Chosen(q.Agent, q.Image), valueFlags(e.GetDefaults()[q.Agent].GetMetadata(), q.Metadata)
	waves := intent.InWaves("--install "+chosen+" --then-default "+q.Environment,
		&intentv1.Selector{Environment: q.Environment})
	if values != "" { // the rollout ends with a default that has the values of the one before
		waves = fmt.Sprintf("garrison env default %s %s --reach new%s, and then %s", q.Environment, chosen, values,
			waves)
	}
	if touched > MostAtOnce && !q.AtOnce { // also those that wait, such as for the image: it comes to all at once
		return fault.Refuse(fault.Invalid, intent.TooWide(fmt.Sprintf(
			"the default of environment %q would install %s", q.Environment, q.Agent), touched, waves))
	}
	state := window.At(e, a.records.Now())
	if n == 0 || state.Open || q.Reach != environmentv1.Reach_REACH_ALL {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.Closed, "the default would install %s on %d servers, and %s", q.Agent, n,
		state.Why).Try(waves)
}

// valueFlags returns the flags that change the values of a default, each after a space. The values stay with the
// reader: some are secret.
func valueFlags(have, want map[string]string) (flags string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, ok := have[name]; !ok || value != want[name] {
			flags += " --set " + name + "=VALUE"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := want[name]; !ok {
			flags += " --unset " + name
		}
	}
	return flags
}

// check checks the fields of a request that need no view.
func (a *Defaults) check(q *registryv1.SetDefaultRequest) error {
	switch q.Reach {
	case environmentv1.Reach_REACH_NEW, environmentv1.Reach_REACH_ALL:
	default:
		return request.Invalid(code.Invalid, "the default of agent %q says neither new servers nor all", q.Agent)
	}
	if err := metadata.Check(q.Metadata); err != nil {
		return err
	}
	return metadata.CheckSealed(a.records.Secrets, q.Metadata)
}

// fits checks a request against the view, and returns the default that it replaces, or nil. It must run inside Read.
func (a *Defaults) fits(q *registryv1.SetDefaultRequest) (*environmentv1.Default, error) {
	view := a.records.View
	e, ok := view.Environment(q.Environment)
	if !ok {
		return nil, request.NotFound(selector.UnknownEnvironment(view, q.Environment))
	}
	agent, ok := view.Agent(q.Agent)
	if !ok {
		return nil, request.NotFound(intent.UnknownAgent(view, q.Agent))
	}
	have := e.Defaults[q.Agent]
	if have == nil && len(e.Defaults) >= maxDefaults {
		return nil, request.Invalid(code.TooMany, "environment %q has %d defaults; %d are the most", e.Name,
			len(e.Defaults), maxDefaults)
	}
	if err := metadata.CheckKeptSecret(have.GetMetadata(), q.Metadata); err != nil {
		return nil, err
	}
	if refusal := defaults.Broken(view, q, a.records.Secrets); refusal != nil {
		return nil, fault.Refuse(fault.Invalid, refusal)
	}
	return have, a.choiceExists(e, agent, q)
}

// choiceExists refuses an image, a version or a channel that does not exist. An image for the platform of a server may
// come later.
func (a *Defaults) choiceExists(
	e *environmentv1.Environment, agent *agentv1.Agent, q *registryv1.SetDefaultRequest,
) error {
	_, refusal := image.Choose(a.records.View, image.Want{Agent: agent, Choice: q.Image, Channel: e.Channel})
	if refusal == nil {
		return nil
	}
	switch {
	case refusal.Code == code.UnknownChannel, refusal.Code == code.WrongKind,
		refusal.Code == code.NoMatch && image.Named(q.Image):
		refusal.Component = ledger.Registry
		return request.NotFound(refusal)
	}
	return nil
}

func sameDefault(have *environmentv1.Default, next *environmentv1.DefaultSet) bool {
	return have != nil && have.Reach == next.Reach && proto.Equal(have.Image, next.Image) &&
		maps.Equal(have.Metadata, next.Metadata) && request.SameOwners(have.Owners, next.Owners)
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

// Unset ends a default.
func (a *Defaults) Unset(
	ctx context.Context, c bus.Caller, q *registryv1.UnsetDefaultRequest,
) (*registryv1.UnsetDefaultResponse, error) {
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		e, ok := a.records.View.Environment(q.Environment)
		if !ok {
			return nil, request.NotFound(selector.UnknownEnvironment(a.records.View, q.Environment))
		}
		if e.Defaults[q.Agent] == nil {
			return nil, unknownDefault(q.Environment, q.Agent, e)
		}
		if err := checkDefaultRevision(q.Environment, q.Agent, e.Defaults[q.Agent], q.IfRevision); err != nil {
			return nil, err
		}
		unset := &environmentv1.DefaultUnset{Agent: q.Agent}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Environment, q.Environment, unset)}, nil
	})
	return request.Answer(&registryv1.UnsetDefaultResponse{}, err)
}

func unknownDefault(environment, agent string, e *environmentv1.Environment) error {
	return request.NotFound(&apiv1.Refusal{
		Code:    code.NotFound,
		Message: fmt.Sprintf("environment %q has no default for agent %q", environment, agent),
		Nearest: nearest.Name(agent, maps.Keys(e.GetDefaults())),
		Try:     "garrison env default " + environment,
	})
}

// listed are defaults of one environment, and the servers on which what became of them is counted.
type listed struct {
	rows    []*registryv1.DefaultRow
	servers []string
}

// List lists the defaults of an environment, of a server, or of an agent in all environments, with what became of them.
func (a *Defaults) List(
	ctx context.Context, _ bus.Caller, q *registryv1.ListDefaultsRequest,
) (*registryv1.ListDefaultsResponse, error) {
	everywhere := q.Environment == "" && q.Server == ""
	if everywhere && q.Agent == "" || q.Environment != "" && q.Server != "" {
		return nil, request.Invalid(code.Malformed, "an environment, a server or an agent must be named, and not the "+
			"first two")
	}
	var found []listed
	err := a.records.Decider.Query(ctx, func() (err error) {
		if !everywhere {
			found, err = a.listedIn(q)
			return err
		}
		for name, e := range a.records.View.Environments("") {
			if e.Defaults[q.Agent] != nil {
				found = append(found, listed{a.rows(e, q.Agent), a.living(name)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListDefaultsResponse{}
	for _, l := range found {
		a.count(l)
		resp.Defaults, resp.Members = append(resp.Defaults, l.rows...), resp.Members+uint32(len(l.servers))
	}
	slices.SortStableFunc(resp.Defaults, func(x, y *registryv1.DefaultRow) int {
		return strings.Compare(x.Agent, y.Agent)
	})
	return resp, nil
}

// listedIn returns the defaults of the environment or the server that a request names. It must run inside Query.
func (a *Defaults) listedIn(q *registryv1.ListDefaultsRequest) ([]listed, error) {
	if q.Server != "" {
		s, err := a.records.Find(q.Server)
		if err != nil {
			return nil, err
		}
		e, _ := a.records.View.Environment(s.Environment)
		return []listed{{a.rows(e, q.Agent), []string{s.Id}}}, nil
	}
	e, ok := a.records.View.Environment(q.Environment)
	if !ok {
		return nil, request.NotFound(selector.UnknownEnvironment(a.records.View, q.Environment))
	}
	return []listed{{a.rows(e, q.Agent), a.living(q.Environment)}}, nil
}

// rows returns the defaults of an environment, or those of one agent.
func (a *Defaults) rows(e *environmentv1.Environment, agent string) []*registryv1.DefaultRow {
	return slices.DeleteFunc(defaults.Rows(a.records.View, e), func(row *registryv1.DefaultRow) bool {
		return agent != "" && row.Agent != agent
	})
}

// count adds to rows what became of them. The view stands still for one part of the servers at a time.
func (a *Defaults) count(l listed) {
	for part := range slices.Chunk(l.servers, defaults.Batch) {
		a.records.Follower.Read(func() {
			for _, row := range l.rows {
				defaults.Count(a.records.View, row, part, a.records.Now())
			}
		})
	}
	a.addHeld(l.rows, l.servers)
}

// addHeld adds to rows the servers on which a default is held.
func (a *Defaults) addHeld(rows []*registryv1.DefaultRow, servers []string) {
	for _, row := range rows {
		all, some := a.work.Held(row.Environment, row.Agent, servers)
		if len(some) == 0 {
			continue
		}
		a.records.Follower.Read(func() { defaults.AddHeld(a.records.View, row, all, some) })
	}
}

// living returns the ids of the living servers of an environment. It must run inside Read.
func (a *Defaults) living(environment string) []string {
	var out []string
	for s := range a.records.View.ServersWhere(environment, nil) {
		if s.Life == serverv1.Life_LIFE_ALIVE {
			out = append(out, s.Id)
		}
	}
	return out
}

// checkDefaultRevision refuses a request that is based on another revision than a default has; 0 is based on none.
func checkDefaultRevision(
	environment, agent string, have *environmentv1.Default, based uint64,
) error {
	if based == 0 || have.GetRevision() == based {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"the default of agent %q in environment %q has revision %d, not %d: %s set it at %s", agent, environment,
		have.GetRevision(), based, have.GetActor(), have.GetSetAt().AsTime().UTC().Format(time.RFC3339)).
		Try("garrison env show " + environment)
}
