package rollout

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/listing"
	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// mostSlow is how many slow tasks of an agent are read.
const mostSlow = 100

// findSlow completes the slow servers of a rollout. The registry names those whose whole change takes long; the
// task-dispatcher, which alone knows the executor's steps, those whose present step does. Without its answer the
// registry's remain as they are.
func findSlow(ctx context.Context, env *cli.Env, r *registryv1.GetRolloutResponse) {
	if noun.Ended(r.GetRollout().GetState()) {
		return // what is slow there now is another change
	}
	known := slices.Clone(r.GetSlow())
	for _, agent := range r.GetRollout().GetAgents() {
		slow, err := cli.Call[*dispatcherv1.ListTasksResponse](ctx, env, &dispatcherv1.ListTasksRequest{
			Page: &apiv1.Page{Limit: mostSlow}, Agent: agent, Slow: true,
		})
		if err != nil {
			return
		}
		addSlow(r, slow.GetTasks(), fleet.ServerNames(ctx, env, slow.GetTasks()), env.Now())
	}
	for _, s := range known { // at most as many as the registry names
		tasks, err := cli.Call[*dispatcherv1.ListTasksResponse](ctx, env, &dispatcherv1.ListTasksRequest{
			Page: &apiv1.Page{Limit: 1}, ServerId: s.GetServerId(), Agent: s.GetAgent(),
			States: []taskv1.State{taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING},
		})
		if err != nil {
			return
		}
		for _, t := range tasks.GetTasks() {
			s.Step = stepText(t, s.Step)
		}
	}
}

// addSlow adds the tasks of a rollout that are slow at their step. Those of a server that is named already replace how
// long it takes: what takes long now tells more than the whole.
func addSlow(r *registryv1.GetRolloutResponse, tasks []*taskv1.Task, names map[string]string, now time.Time) {
	for _, t := range tasks {
		if t.GetQueuedAt().AsTime().Before(r.GetRollout().GetPlannedAt().AsTime()) {
			continue // another change brought it
		}
		n := slices.IndexFunc(r.Slow, func(s *registryv1.SlowServer) bool {
			return s.GetServerId() == t.GetServerId() && s.GetAgent() == t.GetAgent()
		})
		if n < 0 {
			n = len(r.Slow)
			r.Slow = append(r.Slow, &registryv1.SlowServer{
				ServerId: t.GetServerId(), ServerName: names[t.GetServerId()], Agent: t.GetAgent(),
			})
			r.SlowCount++
		}
		r.Slow[n].Step = stepText(t, listing.Word(t.GetState()))
		r.Slow[n].Took = durationpb.New(now.Sub(t.GetLive().GetSince().AsTime()))
		r.Slow[n].Median = t.GetLive().GetUsual()
	}
}

// stepText returns what a task does; otherwise what is known besides.
func stepText(t *taskv1.Task, otherwise string) string {
	if task.Waits(t) {
		return "deferred: " + t.GetReason()
	}
	if t.GetServerOfflineSince() != nil {
		return "server offline"
	}
	if step := t.GetLive().GetStep(); step != taskv1.Step_STEP_UNSPECIFIED {
		return "at step " + listing.Word(step)
	}
	return otherwise
}
