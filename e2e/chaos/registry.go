package chaos

import (
	"context"
	"errors"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// servers returns what the registry says of every server that is not dead, by name.
func (w *World) servers(ctx context.Context) (map[string]*serverv1.Server, error) {
	out := map[string]*serverv1.Server{}
	for s, err := range w.client.Servers(ctx, nil) {
		if err != nil {
			return nil, err
		}
		out[s.Name] = s
	}
	return out, nil
}

// instances returns what the registry says of every instance, by server name and agent.
func (w *World) instances(ctx context.Context) (map[string]map[string]*instancev1.Instance, error) {
	out := map[string]map[string]*instancev1.Instance{}
	for row, err := range w.client.Instances(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if out[row.ServerName] == nil {
			out[row.ServerName] = map[string]*instancev1.Instance{}
		}
		out[row.ServerName][row.Instance.Agent] = row.Instance
	}
	return out, nil
}

// openTasks returns the tasks that have not ended.
func (w *World) openTasks(ctx context.Context) (open []*taskv1.Task, err error) {
	q := &dispatcherv1.ListTasksRequest{
		States: []taskv1.State{taskv1.State_STATE_QUEUED, taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING},
	}
	for t, err := range w.client.Tasks(ctx, q) {
		if err != nil {
			return nil, err
		}
		open = append(open, t)
	}
	return open, nil
}

// facts reads the whole ledger.
func (w *World) facts(ctx context.Context) (facts []ledger.Fact, err error) {
	for e, err := range w.client.Events(ctx, client.Query{}) {
		if err = errors.Join(err, e.Unread); err != nil {
			return nil, err
		}
		facts = append(facts, e.Fact)
	}
	return facts, nil
}
