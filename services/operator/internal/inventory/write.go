package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/record"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// call makes one request.
type call func(context.Context, *cli.Env) error

func to[R proto.Message](q proto.Message) call {
	return func(ctx context.Context, env *cli.Env) error {
		_, err := cli.Call[R](ctx, env, q)
		return err
	}
}

// callOf returns the request that makes a change of an existing server or of another object.
func callOf(c declare.Change) call {
	if c.Action == declare.Delete {
		return deletion(c)
	}
	switch next := c.Next.(type) {
	case *channelv1.Channel:
		return to[*catalogv1.CreateChannelResponse](
			&catalogv1.CreateChannelRequest{Name: c.Name, Description: next.GetDescription()})
	case *applicationv1.Application, *agentv1.Agent, *environmentv1.Environment:
		return put(c)
	case *environmentv1.Default:
		return to[*registryv1.SetDefaultResponse](defaultRequest(c, next))
	case *labelrulev1.LabelRule:
		return to[*registryv1.PutRecordResponse](ruleRequest(c, next))
	case *serverv1.Server:
		return to[*registryv1.ChangeServerResponse](serverRequest(c, next))
	}
	return nil
}

// deletion returns the request that deletes an object.
func deletion(c declare.Change) call {
	var revision uint64
	if r, ok := c.Have.(interface{ GetRevision() uint64 }); ok {
		revision = r.GetRevision()
	}
	if c.Kind == declare.Defaults {
		environment, agent := declare.DefaultOf(c.Name)
		return to[*registryv1.UnsetDefaultResponse](&registryv1.UnsetDefaultRequest{
			Environment: environment, Agent: agent, IfRevision: revision,
		})
	}
	return to[*registryv1.DeleteRecordResponse](record.Delete(record.NounOf(c.Have), c.Name, revision))
}

// put returns the request that creates or changes a record.
func put(c declare.Change) call {
	m := c.Next.ProtoReflect()
	m.Set(m.Descriptor().Fields().ByName("name"), protoreflect.ValueOfString(c.Name))
	q := record.Change(c.Next)
	if c.Action == declare.Create {
		q = record.Create(c.Next)
	}
	return to[*registryv1.PutRecordResponse](q)
}

// defaultRequest returns the request that sets a default. A reach that it has already is not asked for again: an agent
// that was removed since stays removed.
func defaultRequest(c declare.Change, next *environmentv1.Default) *registryv1.SetDefaultRequest {
	environment, agent := declare.DefaultOf(c.Name)
	return &registryv1.SetDefaultRequest{
		Environment: environment, Agent: agent, Image: next.GetImage(), Metadata: next.GetMetadata(),
		Reach: cmp.Or(next.GetReach(), environmentv1.Reach_REACH_NEW), KeepReach: true,
		IfRevision: next.GetRevision(), Owner: c.Owner, PlanSha256: c.PlanSha256, AtOnce: c.AtOnce,
	}
}

// ruleRequest returns the request that sets a label rule. Owners other than the one of the change stay.
func ruleRequest(c declare.Change, next *labelrulev1.LabelRule) *registryv1.PutRecordRequest {
	rule := &labelrulev1.LabelRule{
		Name: c.Name, When: next.GetWhen(), Labels: next.GetLabels(), Revision: next.GetRevision(),
	}
	if c.Owner != nil {
		rule.Owners = []*ownerv1.FieldOwner{c.Owner}
	}
	return record.Set(rule)
}

// serverRequest returns the request for what differs only: another operator's labels stay.
func serverRequest(c declare.Change, next *serverv1.Server) *registryv1.ChangeServerRequest {
	have := c.Have.(*serverv1.Server)
	q := &registryv1.ChangeServerRequest{Server: have.GetId(), SetLabels: map[string]string{}, Owner: c.Owner}
	for k, v := range next.GetLabels() {
		if before, ok := have.GetLabels()[k]; !ok || before != v {
			q.SetLabels[k] = v
		}
	}
	for _, k := range slices.Sorted(maps.Keys(have.GetLabels())) {
		if _, ok := next.GetLabels()[k]; !ok {
			q.UnsetLabels = append(q.UnsetLabels, k)
		}
	}
	if have.GetEnvironment() != next.GetEnvironment() {
		q.Environment = proto.String(next.GetEnvironment())
	}
	return q
}

// atOnce is how many servers are written at once.
const atOnce = 8

// Failure is a change that was not made.
type Failure struct {
	Change declare.Change
	Err    error
}

// Result is what became of the changes of a plan.
type Result struct {
	Done   []declare.Change
	Failed []Failure
}

// Do makes the changes of a plan, in its order; servers side by side. A failed change does not keep others from being
// made: the services refuse those that need it. Its error means that nothing was done.
func Do(ctx context.Context, env *cli.Env, plan *declare.Plan, inv Invitations) (Result, error) {
	var out Result
	if err := inv.prepare(); err != nil {
		return out, err
	}
	var mu sync.Mutex
	one := func(c declare.Change) {
		var err error
		if c.Kind == declare.Servers && c.Action == declare.Create {
			err = inv.invite(ctx, env, c)
		} else {
			err = callOf(c)(ctx, env)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			out.Failed = append(out.Failed, Failure{c, err})
			return
		}
		out.Done = append(out.Done, c)
	}
	var servers errgroup.Group
	servers.SetLimit(atOnce)
	for _, c := range plan.Changes {
		if c.Kind != declare.Servers {
			_ = servers.Wait() // what is deleted must have lost its servers first
			one(c)
			continue
		}
		servers.Go(func() error {
			one(c)
			return nil
		})
	}
	_ = servers.Wait()
	return out, nil
}
