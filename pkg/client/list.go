package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/record"
)

// partRows is the largest number of rows that a service returns at once.
const partRows = 1000

// Part is the answer to a request for a list: some of its rows, and where the next part starts.
type Part interface {
	proto.Message
	GetNextCursor() string
}

// Parts iterates over the parts of a list. A request with a page starts at its cursor and asks for parts of its limit;
// otherwise parts are as large as the service allows. An error is the last element. The request is not changed.
func Parts[R Part](ctx context.Context, c *Client, request proto.Message) iter.Seq2[R, error] {
	return parts[R](ctx, c, request, 0)
}

// Collect reads a list into one answer of at most limit rows; 0 means all. The cursor of the answer is where the list
// continues.
func Collect[R Part](ctx context.Context, c *Client, request proto.Message, limit int) (R, error) {
	var whole R
	for part, err := range parts[R](ctx, c, request, limit) {
		if err != nil {
			return whole, err
		}
		whole = join(whole, part)
	}
	return whole, nil
}

// parts reads at most limit rows, or all with 0.
func parts[R Part](ctx context.Context, c *Client, request proto.Message, limit int) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var zero R
		q, p, err := withPage(request)
		if err != nil {
			yield(zero, err)
			return
		}
		each := p.GetLimit()
		for have := 0; ; {
			p.Limit = each
			if limit > 0 {
				p.Limit = min(each, uint32(limit-have))
			}
			r, err := Call[R](ctx, c, q)
			if err != nil {
				yield(zero, err)
				return
			}
			have += rowCount(r)
			again := r.GetNextCursor() == p.Cursor // a service that repeats itself must not end in a loop
			p.Cursor = r.GetNextCursor()
			if !yield(r, nil) || p.Cursor == "" || again || limit > 0 && have >= limit {
				return
			}
		}
	}
}

// withPage returns a copy of a request with a page that the caller may change.
func withPage(request proto.Message) (proto.Message, *apiv1.Page, error) {
	m := request.ProtoReflect()
	field := m.Descriptor().Fields().ByName("page")
	if field == nil {
		return nil, nil, fault.New(fault.Internal, "%s does not ask for a list", m.Descriptor().FullName())
	}
	q := m.New()
	if m.IsValid() {
		q = proto.Clone(request).ProtoReflect()
	}
	p, ok := q.Mutable(field).Message().Interface().(*apiv1.Page)
	if !ok {
		return nil, nil, fault.New(fault.Internal, "%s has no page", m.Descriptor().FullName())
	}
	if p.Limit == 0 {
		p.Limit = partRows
	}
	return q.Interface(), p, nil
}

// rowCount returns the number of rows in a part.
func rowCount(part proto.Message) int {
	m := part.ProtoReflect()
	if f := page.RowsField(m); f != nil {
		return m.Get(f).List().Len()
	}
	return 0
}

// join adds a part to those before it. The cursor is the part's.
func join[R Part](whole, part R) R {
	if !whole.ProtoReflect().IsValid() {
		return part
	}
	proto.Merge(whole, part)
	cursor := whole.ProtoReflect().Descriptor().Fields().ByName("next_cursor")
	whole.ProtoReflect().Set(cursor, protoreflect.ValueOfString(part.GetNextCursor()))
	return whole
}

// list iterates over the rows of a list.
func list[T any, R Part](ctx context.Context, c *Client, q proto.Message, rows func(R) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for part, err := range Parts[R](ctx, c, q) {
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, row := range rows(part) {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// Servers iterates over servers, by id. A nil request means all that are not dead. An error is the last element, here
// and in the other iterators.
func (c *Client) Servers(ctx context.Context, q *registryv1.ListServersRequest) iter.Seq2[*serverv1.Server, error] {
	return list(ctx, c, q, (*registryv1.ListServersResponse).GetServers)
}

// Instances iterates over instances, by server id and agent. A nil request means all.
func (c *Client) Instances(
	ctx context.Context, q *registryv1.ListInstancesRequest,
) iter.Seq2[*registryv1.InstanceRow, error] {
	return list(ctx, c, q, (*registryv1.ListInstancesResponse).GetInstances)
}

// Agents iterates over agents, by name.
func (c *Client) Agents(ctx context.Context) iter.Seq2[*agentv1.Agent, error] {
	return list(ctx, c, record.List(ledger.Agent), (*registryv1.ListRecordsResponse).GetAgents)
}

// Applications iterates over applications, by name.
func (c *Client) Applications(ctx context.Context) iter.Seq2[*applicationv1.Application, error] {
	return list(ctx, c, record.List(ledger.Application), (*registryv1.ListRecordsResponse).GetApplications)
}

// Environments iterates over environments, by name.
func (c *Client) Environments(ctx context.Context) iter.Seq2[*environmentv1.Environment, error] {
	return list(ctx, c, record.List(ledger.Environment), (*registryv1.ListRecordsResponse).GetEnvironments)
}

// Intents iterates over the intents that the registry keeps, the newest first. A nil request means all.
func (c *Client) Intents(ctx context.Context, q *registryv1.ListIntentsRequest) iter.Seq2[*intentv1.Record, error] {
	return list(ctx, c, q, (*registryv1.ListIntentsResponse).GetIntents)
}

// Images iterates over images, by agent, version and id, without the digests of their chunks. A nil request means all.
func (c *Client) Images(ctx context.Context, q *catalogv1.ListImagesRequest) iter.Seq2[*imagev1.Image, error] {
	return list(ctx, c, q, (*catalogv1.ListImagesResponse).GetImages)
}

// Channels iterates over channels, by name.
func (c *Client) Channels(ctx context.Context) iter.Seq2[*channelv1.Channel, error] {
	return list(ctx, c, &catalogv1.ListChannelsRequest{}, (*catalogv1.ListChannelsResponse).GetChannels)
}

// Tasks iterates over the tasks that the dispatcher keeps, the newest first. A nil request means all.
func (c *Client) Tasks(ctx context.Context, q *dispatcherv1.ListTasksRequest) iter.Seq2[*taskv1.Task, error] {
	return list(ctx, c, q, (*dispatcherv1.ListTasksResponse).GetTasks)
}

// Server returns a server by its id, a prefix of it that only one has, or its name.
func (c *Client) Server(ctx context.Context, name string) (*serverv1.Server, error) {
	r, err := Call[*registryv1.GetServerResponse](ctx, c, &registryv1.GetServerRequest{Server: name})
	return r.GetServer(), err
}

// Image returns an image by its id, a prefix of it that only one has, or AGENT@VERSION.
func (c *Client) Image(ctx context.Context, name string) (*imagev1.Image, error) {
	r, err := Call[*catalogv1.GetImageResponse](ctx, c, &catalogv1.GetImageRequest{Image: name})
	return r.GetImage(), err
}

// Task returns a task by its id, or a prefix of it that only one has.
func (c *Client) Task(ctx context.Context, id string) (*taskv1.Task, error) {
	r, err := Call[*dispatcherv1.GetTaskResponse](ctx, c, &dispatcherv1.GetTaskRequest{Task: id})
	return r.GetTask(), err
}

// Intent returns an intent and what became of it so far, by its id.
func (c *Client) Intent(ctx context.Context, id string) (*intentv1.Record, error) {
	r, err := Call[*registryv1.GetIntentResponse](ctx, c, &registryv1.GetIntentRequest{IntentId: id})
	return r.GetIntent(), err
}
