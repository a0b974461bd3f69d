package wait

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/intent"
	"github.com/garrison-fleet/garrison/services/operator/internal/task"
)

// CancelCommand returns the command cancel.
func CancelCommand(env *cli.Env) *cobra.Command {
	var f intent.CancelFlags
	c := &cobra.Command{
		Use:   "cancel INTENT|TASK",
		Short: "Cancel what has not begun of an intent, or one task; what runs finishes.",
		Long: `Withdraw an intent: cancel its changes that have not begun or are deferred, on every server. Or cancel
one task that is not assigned yet. Changes that run finish. A rollout is ended by garrison rollout abort.`,
		Example: "  garrison cancel 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11 -m \"wrong version\"\n" +
			"  garrison cancel 65d947de --dry-run",
		Args: cli.Exactly("INTENT|TASK"), PreRunE: cli.Prints(env, display.Records),
		SuggestFor: []string{"withdraw", "kill"},
		RunE:       func(c *cobra.Command, a []string) error { return cancel(c.Context(), env, f, a[0]) },
	}
	cli.NoteVar(c.Flags(), &f.Reason)
	c.Flags().BoolVar(&f.Work.DryRun, "dry-run", false, "show what has not begun; change nothing")
	cli.TimeVar(c.Flags(), &f.Work.Timeout, "timeout", time.Minute, 0,
		"of an intent: stop waiting after this `DURATION`, with exit code 7")
	f.Work.AddYes(c)
	return c
}

// cancel cancels the intent or the task that a word names.
func cancel(ctx context.Context, env *cli.Env, f intent.CancelFlags, word string) error {
	var named followed
	if err := named.read(ctx, env, word); err != nil {
		return err
	}
	switch {
	case len(named.rollouts) > 0:
		return cli.Usage("%s is a rollout. Try: garrison rollout abort %[1]s", word)
	case len(named.orders) > 0:
		return intent.Cancel(ctx, env, f, named.orders[0].Record)
	}
	return task.Cancel(ctx, env, named.tasks[0], f.Reason)
}
