package fleet

import (
	"context"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Tasks returns the tasks that match a request, up to the limit of the page.
func Tasks(
	ctx context.Context, env *cli.Env,
	page cli.PageFlags,
	q *dispatcherv1.ListTasksRequest,
) (*dispatcherv1.ListTasksResponse, error) {
	return cli.Collect(ctx, page, func(ctx context.Context, p *apiv1.Page) (*dispatcherv1.ListTasksResponse, error) {
		q.Page = p
		return cli.Call[*dispatcherv1.ListTasksResponse](ctx, env, q)
	})
}

// StateKnown refuses to wait for a task in a state of a newer dispatcher, which may be its end.
func StateKnown(t display.Task) error {
	if output.Known(t.GetState()) {
		return nil
	}
	return fault.Refusef(fault.Internal, code.UnknownField,
		"task %s is in the state %s, which this garrison does not know; its work continues", t.GetId(),
		output.Word(t.GetState())).Try("garrison versions")
}

// Task returns a task by id or unique prefix.
func Task(ctx context.Context, env *cli.Env, id string) (display.Task, error) {
	r, err := cli.Call[*dispatcherv1.GetTaskResponse](ctx, env, &dispatcherv1.GetTaskRequest{Task: id})
	return r.GetTask(), err
}
