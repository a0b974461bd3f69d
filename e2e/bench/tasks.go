package main

import (
	"context"
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// lastTask waits until the newest task of an agent has ended in a state, and returns it.
func lastTask(ctx context.Context, w *world, agent string, state taskv1.State) (t *taskv1.Task, err error) {
	c, err := w.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	err = poll(ctx, fmt.Sprintf("the last task of %s is %s", agent, state), func() (bool, error) {
		q := &dispatcherv1.ListTasksRequest{Agent: agent, Page: &apiv1.Page{Limit: 1}}
		r, err := client.Call[*dispatcherv1.ListTasksResponse](ctx, c, q)
		if err != nil || len(r.GetTasks()) == 0 {
			return false, err
		}
		t = r.GetTasks()[0]
		return t.GetState() == state, nil
	})
	return t, err
}

// seconds returns how long the steps of a task took together.
func seconds(t *taskv1.Task, steps ...taskv1.Step) (sum float64) {
	for _, s := range t.GetOutcome().GetSteps() {
		for _, want := range steps {
			if s.GetStep() == want {
				sum += s.GetTook().AsDuration().Seconds()
			}
		}
	}
	return sum
}
