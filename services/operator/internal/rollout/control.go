package rollout

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// control returns a command that does one thing to a rollout, and prints what became of it.
func control(
	env *cli.Env, q *registryv1.ControlRolloutRequest, c *cobra.Command, done func(display.Rollout, time.Time) string,
) *cobra.Command {
	c.Args, c.PreRunE = cli.Exactly("ROLLOUT"), cli.Prints(env, display.Rollouts)
	c.RunE = func(c *cobra.Command, a []string) error {
		q.RolloutId = a[0]
		answer, err := cli.Call[*registryv1.ControlRolloutResponse](c.Context(), env, q)
		if err != nil {
			return err
		}
		r, at := answer.GetRollout(), env.Now()
		return cli.Changed(env, display.Rollouts, r, "rollout %s %s; %s", ident.Handle(r.GetId()), done(r, at),
			nextOf(r, at))
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}

// always returns a text that holds for every rollout.
func always(text string) func(display.Rollout, time.Time) string {
	return func(display.Rollout, time.Time) string { return text }
}

// goesOn returns whether a rollout that was resumed goes on, and how far.
func goesOn(r display.Rollout, at time.Time) string {
	text := "goes on"
	if need := rollout.NeedText(r, at); need != "" {
		text = "does not go on yet: it waits for " + need
	}
	if n := r.GetUntilWave(); n > 0 {
		text += fmt.Sprintf(", and stops after wave %d of %d", n, len(r.GetWaves()))
	}
	return text
}

// nextOf returns what a person can do with a rollout, with the command.
func nextOf(r display.Rollout, at time.Time) string {
	id := ident.Handle(r.GetId())
	switch need := rollout.NeedAt(r, at); {
	case need == rollout.NeedsApprove:
		return "to approve it: garrison rollout approve " + id
	case need != rollout.NeedsNothing:
		return "to go on: garrison rollout resume " + id
	case r.GetState() != rolloutv1.State_STATE_ABORTED:
		return "to follow: garrison watch " + id
	case rollout.Changed(r) > 0:
		return "to take it back: " + display.UndoRollout(r)
	}
	return "to see it: garrison rollout show " + id
}

func pauseCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE}
	return control(env, q, &cobra.Command{
		Use: "pause ROLLOUT", Example: "  garrison rollout pause 1a2b3c4d -m lunch",
		Short: "Begin nothing new until the rollout is resumed.",
	}, always("is paused, and what has begun ends by itself"))
}

func resumeCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME}
	c := control(env, q, &cobra.Command{
		Use: "resume ROLLOUT",
		Example: "  garrison rollout resume 1a2b3c4d --until-wave 2\n" +
			"  garrison rollout resume 1a2b3c4d --until-wave next",
		Short: "Let a rollout that is paused or halted go on; what is broken by now does not count again.",
	}, goesOn)
	c.Flags().Var(cli.FlagValue{Read: func(text string) (err error) {
		if text == "next" {
			q.Control = registryv1.RolloutControl_ROLLOUT_CONTROL_STEP
			return nil
		}
		if q.UntilWave, err = cli.ReadCount(text); err != nil || q.UntilWave == 0 {
			return fmt.Errorf("%q is neither next nor the number of a wave, from 1", text)
		}
		return nil
	}}, "until-wave", "stop again after this `WAVE`, or next: after the one that is open, or else the next one")
	c.Flags().BoolVar(&q.Override, "override", false, "from now on, change servers also while their environment is "+
		"held or outside its windows; also for a rollout that waits for a window; it is recorded")
	return c
}

func abortCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.ControlRolloutRequest{Control: registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT}
	var keeps, undoes bool
	c := control(env, q, &cobra.Command{
		Use: "abort ROLLOUT", Example: "  garrison rollout abort 1a2b3c4d -m \"the wrong build\"\n" +
			"  garrison rollout abort 1a2b3c4d --undo",
		Short: "End a rollout; what has begun ends by itself, and what was changed stays until it is undone.",
		Long: `End a rollout: nothing more of it begins, and what has begun ends by itself. What it changed stays,
unless you take it back: on a terminal, the command asks once the rollout has ended. --undo takes it back at
once, as garrison undo does; --keep does not ask.`,
	}, always("has ended, and what has begun ends by itself"))
	flags := c.Flags()
	flags.BoolVar(&keeps, "keep", false, "keep what it changed, and do not ask")
	flags.BoolVar(&undoes, "undo", false, "take back what it changed, and watch")
	abort := c.RunE
	c.RunE = func(c *cobra.Command, a []string) error {
		if keeps && undoes {
			return cli.Usage("--keep and --undo exclude each other")
		}
		if err := abort(c, a); err != nil || keeps {
			return err
		}
		return takeBack(c.Context(), env, a[0], undoes)
	}
	return c
}

// takeBack takes back what a rollout changed that was aborted, where that is asked for.
func takeBack(ctx context.Context, env *cli.Env, reference string, asked bool) error {
	r, err := get(ctx, env, reference)
	n := int(rollout.Changed(r.GetRollout()))
	if err != nil || n == 0 {
		return err
	}
	if !asked {
		asked, err = env.Asks(ctx, "Take back what it changed on "+listing.Plural(n, "server")+"?")
	}
	if err != nil || !asked {
		return err
	}
	d := doing{yes: true, timeout: longestWatch}
	return propose(ctx, env, d, undoRequest(r.GetRollout().GetId(), nil, false), "")
}

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
		return cli.Changed(env, display.Rollouts, r.GetRollout(), text, r.GetWave(),
			ident.Handle(r.GetRollout().GetId()))
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
