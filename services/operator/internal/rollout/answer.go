package rollout

import (
	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// answer returns a command that answers the gate of a rollout, and prints done with the wave and the rollout, or
// already when the answer held before.
func answer(env *cli.Env, q *registryv1.AnswerRolloutRequest, c *cobra.Command, done, already string) *cobra.Command {
	c.Args, c.PreRunE = cli.Exactly("ROLLOUT"), cli.Prints(env, display.Rollouts)
	c.RunE = func(c *cobra.Command, a []string) error {
		if q.RolloutId = a[0]; q.GetAnswer() == registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT && q.GetReason() == "" {
			return cli.Usage("the reason is missing. Try: garrison rollout reject %s -m WHY", a[0])
		}
		r, err := cli.Call[*registryv1.AnswerRolloutResponse](c.Context(), env, q)
		if err != nil {
			return err
		}
		text := done
		if r.GetAlready() {
			text = already
		}
		return cli.Changed(env, display.Rollouts, r.GetRollout(), text, r.GetWave(), r.GetRollout().GetId())
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}

func approveCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.AnswerRolloutRequest{Answer: registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE}
	c := answer(env, q, &cobra.Command{
		Use: "approve ROLLOUT", Example: "  garrison rollout approve 1a2b3c4d --wave 2",
		Short: "Let the next wave begin once the one before passed; the role approver may do this and nothing else.",
	}, "wave %d of rollout %s is approved", "wave %d of rollout %s is approved already; this approved nothing")
	countVar(c.Flags(), &q.Wave, "wave", "approve this `WAVE`, also ahead; without it, the one that waits now")
	return c
}

func rejectCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.AnswerRolloutRequest{Answer: registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT}
	c := answer(env, q, &cobra.Command{
		Use: "reject ROLLOUT -m WHY", Example: "  garrison rollout reject 1a2b3c4d -m \"the smoke test fails\"",
		Short: "Refuse a wave that waits for an approval: the rollout halts at once, for this reason.",
	}, "wave %d of rollout %s is rejected, and the rollout halts; what has begun ends by itself",
		"wave %d of rollout %s was not rejected again: the rollout has halted for a rejection")
	countVar(c.Flags(), &q.Wave, "wave", "reject this `WAVE`; without it, the next one")
	return c
}
