// Package fleet reads what several commands need from the services: servers, instances, tasks, and intents with their
// progress.
package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Server returns a server by id, unique prefix or name.
func Server(ctx context.Context, env *cli.Env, name string) (display.Server, error) {
	found, _, err := ServerNow(ctx, env, name)
	return found, err
}

// ServerNow is Server, and why no change of an agent may begin there now; nil when one may.
func ServerNow(ctx context.Context, env *cli.Env, name string) (display.Server, *registryv1.Closed, error) {
	r, err := cli.Call[*registryv1.GetServerResponse](ctx, env, &registryv1.GetServerRequest{Server: name})
	if s := r.GetServer(); s != nil {
		env.Names.Learn(s.GetId(), s.GetName())
	}
	return r.GetServer(), r.GetClosed(), err
}

// Servers returns every server that is not dead, or none on an error.
func Servers(ctx context.Context, env *cli.Env) []display.Server {
	r, err := cli.All[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{})
	if err != nil {
		return nil // names are optional; ids replace them
	}
	return r.GetServers()
}

const (
	// Up to askedSingly servers are requested one by one, askedAtOnce of them concurrently; beyond that the whole list
	// is read.
	askedSingly = 100
	askedAtOnce = 16
)

// ServerNames returns the names of the tasks' servers by id. A server that is not found has an empty name.
func ServerNames(ctx context.Context, env *cli.Env, tasks []display.Task) map[string]string {
	names := map[string]string{}
	for _, t := range tasks {
		names[t.GetServerId()] = ""
	}
	if len(names) > askedSingly {
		for _, found := range Servers(ctx, env) {
			names[found.GetId()] = found.GetName()
		}
		return names
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askedAtOnce)
	for _, id := range slices.Collect(maps.Keys(names)) {
		g.Go(func() error {
			if found, err := Server(ctx, env, id); err == nil {
				mu.Lock()
				defer mu.Unlock()
				names[id] = found.GetName()
			}
			return nil
		})
	}
	_ = g.Wait() // a server that is not found has no name
	return names
}

// Agents returns all agents, by name.
func Agents(ctx context.Context, env *cli.Env) ([]*agentv1.Agent, error) {
	return cli.Records[*agentv1.Agent](ctx, env, record.List(ledger.Agent))
}

// Agent returns the agent of a name, or nil.
func Agent(ctx context.Context, env *cli.Env, name string) (*agentv1.Agent, error) {
	all, err := Agents(ctx, env)
	if n := slices.IndexFunc(all, func(a *agentv1.Agent) bool { return a.GetName() == name }); n >= 0 {
		return all[n], nil
	}
	return nil, err
}

// Instances returns every instance that matches a request.
func Instances(ctx context.Context, env *cli.Env, q *registryv1.ListInstancesRequest) ([]display.Instance, error) {
	r, err := cli.All[*registryv1.ListInstancesResponse](ctx, env, q)
	return r.GetInstances(), err
}

// Tasks returns the tasks that match a request, up to the limit of the page.
func Tasks(
	ctx context.Context, env *cli.Env,
	page cli.PageFlags,
	q *dispatcherv1.ListTasksRequest,
) (*dispatcherv1.ListTasksResponse, error) {
	return cli.Collect(ctx, page, cli.Ask[*dispatcherv1.ListTasksResponse](env, q))
}

// StateKnown refuses to wait for a task in a state of a newer dispatcher, which may be its end.
func StateKnown(t display.Task) error {
	if listing.Known(t.GetState()) {
		return nil
	}
	return fault.Refusef(fault.Internal, code.UnknownField,
		"task %s is in the state %s, which this garrison does not know; its work continues", t.GetId(),
		listing.Word(t.GetState())).Try("garrison versions")
}

// Task returns a task by id or unique prefix.
func Task(ctx context.Context, env *cli.Env, id string) (display.Task, error) {
	r, err := cli.Call[*dispatcherv1.GetTaskResponse](ctx, env, &dispatcherv1.GetTaskRequest{Task: id})
	return r.GetTask(), err
}

// outputsAtOnce is how many outputs one request opens.
const outputsAtOnce = 20

// OpenOutputs replaces the sealed output in the outcomes of tasks by its text, or by nothing after an error. An error
// is Denied for a role that may not read the output of agents. Nothing is asked after the first error.
func OpenOutputs(ctx context.Context, env *cli.Env, tasks []display.Task) error {
	open := func(t display.Task) bool { return !secret.IsSealed(t.GetOutcome().GetLogTail()) }
	sealed := slices.DeleteFunc(slices.Clone(tasks), open)
	var q []*dispatcherv1.SealedOutput
	for _, t := range sealed {
		q = append(q, &dispatcherv1.SealedOutput{TaskId: t.GetId(), Sealed: t.GetOutcome().GetLogTail()})
		t.Outcome.LogTail = ""
	}
	for len(q) > 0 {
		n := min(len(q), outputsAtOnce)
		r, err := cli.Call[*dispatcherv1.OpenOutputsResponse](ctx, env, &dispatcherv1.OpenOutputsRequest{Sealed: q[:n]})
		if err != nil {
			return err
		}
		for i, text := range r.GetOutputs() {
			sealed[i].Outcome.LogTail = text
		}
		q, sealed = q[n:], sealed[n:]
	}
	return nil
}

// Progress returns the progress of an intent from the dispatcher, with up to rows of its tasks.
func Progress(ctx context.Context, env *cli.Env, id string, rows uint32) (display.Progress, error) {
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	p, err := c.Progress(ctx, rows, id)
	if err != nil {
		return nil, err
	}
	return p[0], nil
}

// WholeIntent returns the id of the intent that a prefix of it names. It asks for nothing when id is whole.
func WholeIntent(ctx context.Context, env *cli.Env, id string) (string, error) {
	if ident.IsUUID(id) {
		return id, nil
	}
	r, err := Intent(ctx, env, id, 0)
	return r.GetId(), err
}

// Intent returns the record of an intent, by its id or a prefix that no other kept intent has. It waits up to wait for
// the registry's decision.
func Intent(ctx context.Context, env *cli.Env, id string, wait time.Duration) (*intentv1.Record, error) {
	q := &registryv1.GetIntentRequest{IntentId: id}
	if wait > 0 {
		q.Wait = durationpb.New(wait)
	}
	r, err := cli.Call[*registryv1.GetIntentResponse](ctx, env, q)
	return r.GetIntent(), err
}

// RolloutID returns the id of the rollout that has this id, or the beginning of it.
func RolloutID(ctx context.Context, env *cli.Env, word string) (string, error) {
	r, err := cli.Call[*registryv1.GetRolloutResponse](ctx, env, &registryv1.GetRolloutRequest{RolloutId: word})
	return r.GetRollout().GetId(), err
}

// Derived returns the ids of the intents that rollouts led to, in the order of the ledger.
func Derived(ctx context.Context, c *client.Client, of func(rollout string) bool) (ids []string, err error) {
	for e, err := range c.Events(ctx, client.Query{Noun: ledger.Intent, Gaps: true}) {
		if err != nil {
			return nil, err
		}
		if IsDerived(e, of) {
			ids = append(ids, e.Key)
		}
	}
	return ids, nil
}

// IsDerived reports whether a fact accepts an intent that a rollout led to.
func IsDerived(e client.Event, of func(rollout string) bool) bool {
	b, _ := e.Body.(*intentv1.Accepted)
	id := b.GetIntent().GetSource().GetRolloutId()
	return id != "" && of(id)
}

// RoleNow returns the role that the service access recorded for the key of a context, whatever the context itself
// says. It refuses a key that access does not know, or no longer. A reporter or an approver may not read the users: its
// role is what the context says, once the bus accepted the credentials and refused that request.
func RoleNow(ctx context.Context, env *cli.Env, who trust.Context) (topology.Role, error) {
	if _, err := env.Client(ctx); err != nil {
		return "", err
	}
	r, err := cli.All[*accessv1.ListUsersResponse](ctx, env, &accessv1.ListUsersRequest{})
	role := topology.Role(who.Role)
	if fault.Is(err, fault.Denied) && (role == topology.Reporter || role == topology.Approver) {
		return role, nil
	}
	if err != nil {
		return "", err
	}
	public := who.PublicKey()
	for _, u := range r.GetUsers() {
		n := slices.IndexFunc(u.GetKeys(), func(k *userv1.Key) bool { return k.GetPublicKey() == public })
		if n < 0 || u.GetName() != who.Actor {
			continue
		}
		if expires := u.GetKeys()[n].GetExpiresAt(); expires != nil && !env.Now().Before(expires.AsTime()) {
			return "", stranger(who, "expired at "+listing.Stamp(expires))
		}
		return topology.Role(listing.Word(u.GetKeys()[n].GetRole())), nil
	}
	return "", stranger(who, "is not one of that user, or it is revoked")
}

// stranger refuses a context whose key is not valid.
func stranger(who trust.Context, why string) error {
	return cli.Refuse(fault.Denied, &apiv1.Refusal{
		Code:    code.BadKey,
		Message: "the context names the user " + listing.Quote(who.Actor) + ", and its key " + why,
		Try:     "garrison context list",
	})
}

// labelsRead is how many servers are looked at for labels that they have.
const labelsRead = 100

// NearestTerm returns the term that a selector of no server most likely means, or "", also when it cannot ask.
func NearestTerm(ctx context.Context, env *cli.Env, on *intentv1.Selector) string {
	q := &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: labelsRead}}
	r, _ := cli.Call[*registryv1.ListServersResponse](ctx, env, q)
	var labels []string
	for _, s := range r.GetServers() {
		labels = slices.AppendSeq(labels, maps.Keys(s.GetLabels()))
	}
	return selection.Nearest(on, labels)
}

// SayNewSite reports that no server has a site yet, with the nearest site that has servers. A site is no object that
// could be missing: its first server makes it, and a typing error would do so too. A failure to count says nothing.
func SayNewSite(ctx context.Context, env *cli.Env, site string) {
	if site == "" || site == topology.DefaultCell {
		return
	}
	r, err := cli.Call[*registryv1.CountServersResponse](ctx, env,
		&registryv1.CountServersRequest{By: []string{"cell"}, Top: 1000})
	var sites []string
	for _, g := range r.GetCounts().GetGroups() {
		sites = append(sites, g.GetValues()...)
	}
	if err != nil || r.GetCounts().GetOtherGroups() > 0 || slices.Contains(sites, site) {
		return
	}
	if near := nearest.Name(site, slices.Values(sites)); near != "" {
		env.Say("no server is at site %s yet. Nearest: %s", site, near)
		return
	}
	env.Say("no server is at site %s yet", site)
}
