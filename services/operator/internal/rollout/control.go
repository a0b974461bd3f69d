package rollout

import (
	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// control returns a command that does one thing to a rollout.
func control(env *cli.Env, q *registryv1.ControlRolloutRequest, c *cobra.Command, done string) *cobra.Command {
	c.Args, c.PreRunE = cli.Exactly("ROLLOUT"), cli.Prints(env, display.Rollouts)
	c.RunE = func(c *cobra.Command, a []string) error {
		q.RolloutId = a[0]
		r, err := cli.Call[*registryv1.ControlRolloutResponse](c.Context(), env, q)
		if err != nil {
			return err
		}
		return cli.Changed(env, display.Rollouts, r.GetRollout(), "rollout %s %s; to follow: garrison rollout watch %s",
			r.GetRollout().GetId(), done, r.GetRollout().GetId())
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}

func pauseCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE}
	return control(env, q, &cobra.Command{
		Use: "pause ROLLOUT", Example: "  garrison rollout pause 1a2b3c4d -m lunch",
		Short: "Begin nothing new until the rollout is resumed.",
	}, "is paused; what has begun ends by itself")
}

func resumeCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME}
	c := control(env, q, &cobra.Command{
		Use: "resume ROLLOUT", Example: "  garrison rollout resume 1a2b3c4d --until-wave 2",
		Short: "Let a rollout that is paused or halted go on; what is broken by now does not count again.",
	}, "goes on")
	countVar(c.Flags(), &q.UntilWave, "until-wave", "stop again after this `WAVE`")
	c.Flags().BoolVar(&q.Override, "override", false, "from now on, change servers also while their environment is "+
		"frozen or outside its windows; also for a rollout that waits for a window; it is recorded")
	return c
}

func stepCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_STEP}
	return control(env, q, &cobra.Command{
		Use: "step ROLLOUT", Example: "  garrison rollout step 1a2b3c4d",
		Short: "Let a rollout go on to the end of one wave: the one that is open, or the next one.",
	}, "goes on for one wave")
}

func abortCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT}
	return control(env, q, &cobra.Command{
		Use: "abort ROLLOUT", Example: "  garrison rollout abort 1a2b3c4d -m \"the wrong build\"",
		Short: "End a rollout; what has begun ends by itself, and what was changed stays until it is undone.",
	}, "has ended")
}
