package task

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// pollEvery is the interval of questions about a task.
const pollEvery = time.Second

func waitCommand(env *cli.Env) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:     "wait TASK…",
		Example: "  garrison task wait 65d947de --timeout 10m",
		Short:   "Wait until tasks end; exit with 0 if all succeeded, 5 if some did, 1 if none did.",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 {
				return cli.Usage("garrison task wait: TASK is missing. Try: garrison task list")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error { return wait(c.Context(), env, a, timeout) },
	}
	cli.TimeVar(c.Flags(), &timeout, "timeout", time.Hour, 0, "stop waiting after this `DURATION`, with exit code 7")
	return c
}

func wait(ctx context.Context, env *cli.Env, ids []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cli.ErrWaited)
	defer cancel()
	var tasks []display.Task
	answered := false
	for _, id := range ids {
		for {
			t, err := fleet.Task(ctx, env, id)
			if err == nil {
				err = fleet.StateKnown(t)
			}
			if err != nil && !(answered && fault.Is(err, fault.Unavailable)) {
				return env.Left(ctx, err, "garrison watch "+id)
			}
			answered = true // from now on a restart of a service or the bus is waited for
			if err == nil && display.TaskEnded(t) {
				tasks = append(tasks, t)
				break
			}
			if err := cli.Pause(ctx, pollEvery); err != nil {
				return env.Left(ctx, err, "garrison watch "+id)
			}
		}
	}
	if err := show(ctx, env, &dispatcherv1.ListTasksResponse{}, tasks); err != nil {
		return err
	}
	return cli.Ended(watch.Tally(tasks).Code())
}
