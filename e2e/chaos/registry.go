package chaos

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

var (
	registryMethods   = registryv1.File_garrison_registry_v1_registry_service_proto.Services().ByName("RegistryService").Methods()
	dispatcherMethods = dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().ByName("DispatcherService").Methods()
	aboutMethods      = apiv1.File_garrison_api_v1_api_proto.Services().ByName("AboutService").Methods()
)

func call[R proto.Message](
	ctx context.Context, w *World, service string, methods protoreflect.MethodDescriptors, name protoreflect.Name, q proto.Message,
) (R, error) {
	return bus.Call[R](ctx, w.conn, service, methods.ByName(name), q)
}

const pageSize = 1000

// servers returns what the registry says of every server that is not dead, by name.
func (w *World) servers(ctx context.Context) (map[string]*serverv1.Server, error) {
	out := map[string]*serverv1.Server{}
	for cursor := ""; ; {
		q := &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: pageSize, Cursor: cursor}}
		r, err := call[*registryv1.ListServersResponse](ctx, w, topology.UserRegistry, registryMethods, "ListServers", q)
		if err != nil {
			return nil, err
		}
		for _, s := range r.Servers {
			out[s.Name] = s
		}
		if cursor = r.NextCursor; cursor == "" {
			return out, nil
		}
	}
}

// instances returns what the registry says of every instance, by server name and agent.
func (w *World) instances(ctx context.Context) (map[string]map[string]*instancev1.Instance, error) {
	out := map[string]map[string]*instancev1.Instance{}
	for cursor := ""; ; {
		q := &registryv1.ListInstancesRequest{Page: &apiv1.Page{Limit: pageSize, Cursor: cursor}}
		r, err := call[*registryv1.ListInstancesResponse](ctx, w, topology.UserRegistry, registryMethods, "ListInstances", q)
		if err != nil {
			return nil, err
		}
		for _, row := range r.Instances {
			if out[row.ServerName] == nil {
				out[row.ServerName] = map[string]*instancev1.Instance{}
			}
			out[row.ServerName][row.Instance.Agent] = row.Instance
		}
		if cursor = r.NextCursor; cursor == "" {
			return out, nil
		}
	}
}

// openTasks returns the tasks that have not ended.
func (w *World) openTasks(ctx context.Context) ([]*taskv1.Task, error) {
	r, err := call[*dispatcherv1.ListTasksResponse](ctx, w, topology.UserDispatcher, dispatcherMethods, "ListTasks",
		&dispatcherv1.ListTasksRequest{
			Page:   &apiv1.Page{Limit: pageSize},
			States: []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING},
		})
	return r.GetTasks(), err
}

// facts reads the whole ledger.
func (w *World) facts(ctx context.Context) ([]ledger.Fact, error) {
	const part = 500
	var facts []ledger.Fact
	for {
		msgs, err := w.conn.DirectGetFrom(ctx, topology.Ledger, ">", uint64(len(facts))+1, part)
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
			if err != nil {
				return nil, err
			}
			facts = append(facts, f)
		}
		if len(msgs) < part {
			return facts, nil
		}
	}
}
