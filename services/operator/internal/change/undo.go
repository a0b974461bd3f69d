package change

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// UndoCommand returns the command undo.
func UndoCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use:        "undo [INTENT | ROLLOUT]",
		Short:      "Restore what was before a change; without an id, your last one.",
		SuggestFor: []string{"rollback", "revert"},
		Long: `Go back to what was there before an intent or a rollout, on every server that it changed. Without an id
it is your last change, which is refused when nothing is left to undo.

An agent that came goes again, one that went comes back, and a version and a configuration become what they
were. Servers that another intent changed since are left out and named. A rollout goes back as it came: in waves,
with its concurrency, its keep budgets and its limits, without approvals, soaks and servers that join; a way back begins
whole waves. More than 100 servers of an intent go back in waves of 3, 10 %, 50 % and the rest, unless --at-once. With
any flag of waves or gates but --emergency and --override, the way back has only what the flags say.`,
		Example: "  garrison undo\n  garrison undo 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11\n" +
			"  garrison undo 1a2b3c4d --waves 10%",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return cli.OneIntent(c, args)
		},
		RunE: func(c *cobra.Command, a []string) (err error) {
			var past display.Record
			if len(a) == 0 {
				past, err = lastChange(c.Context(), env, w)
			} else {
				past, err = fleet.Intent(c.Context(), env, a[0], 0)
			}
			if fault.Is(err, fault.NotFound) && len(a) > 0 { // a rollout is kept for longer than its intent
				r, e := cli.Call[*registryv1.GetRolloutResponse](c.Context(), env,
					&registryv1.GetRolloutRequest{RolloutId: a[0]})
				if e == nil {
					return waves.Undo(c.Context(), r.GetRollout().GetId(), w)
				}
			}
			if err != nil {
				return err
			}
			return undo(c.Context(), env, w, waves, past, waves.GivenUndo(c))
		},
	}
	c.Flags().BoolVar(&w.AtOnce, "at-once", false, "also on more than 100 servers at once")
	w.Add(c, false)
	w.AddStrict(c)
	w.AddYes(c)
	waves.AddUndo(c)
	return addWays(env, c, &w)
}

// undo undoes an intent: as a rollout when it was one, when it changed many servers, or when that is asked for.
func undo(ctx context.Context, env *cli.Env, w work.Flags, waves Waves, past display.Record, asRollout bool) error {
	if asRollout || past.GetIntent().GetRollout() != nil {
		return waves.Undo(ctx, past.GetId(), w)
	}
	id := past.GetId()
	err := work.Propose(ctx, env, w, work.Proposal{
		Verb: topology.VerbUndo, Question: "Undo intent " + id, Asks: asked(undoOf(id)),
	})
	if fault.RefusalOf(err).GetCode() == code.TooWide {
		return waves.Undo(ctx, id, w)
	}
	return err
}

func undoOf(id string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id}}}
}

// mostLooked is how many of the caller's last intents are looked at for one that changes agents.
const mostLooked = 20

// lastChange returns the last change of the caller, and says which it is. It refuses a change that left nothing to
// undo: the caller does not mean the one before it.
func lastChange(ctx context.Context, env *cli.Env, w work.Flags) (display.Record, error) {
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	r, err := cli.Call[*registryv1.ListIntentsResponse](ctx, env, &registryv1.ListIntentsRequest{
		Actor: c.Actor(), State: intentv1.State_STATE_ACCEPTED, Page: &apiv1.Page{Limit: mostLooked},
	})
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(r.GetIntents(), changesAgents)
	if n < 0 {
		return nil, cli.Usage("no change of yours can be undone: %s changed nothing yet. Try: garrison undo --list, "+
			"or garrison intent list", c.Actor())
	}
	past := r.GetIntents()[n]
	why := whyNoUndo(past)
	if why == "" {
		if why, err = nothingLeft(ctx, env, w, past); err != nil {
			return nil, err
		}
	}
	id := listing.ShortID(env.Output.View(), past.GetId())
	what, at := display.BriefText(past.GetIntent()), listing.Stamp(past.GetDecidedAt())
	if why != "" {
		return nil, cli.Usage("your last change has nothing to undo: %s, %s, %s: %s; no older change was looked for. "+
			"Try: garrison undo --list", what, at, id, why)
	}
	env.Say("your last change: %s, %s, %s", what, at, id)
	return past, nil
}

// changesAgents reports whether an intent is a change of agents that its actor asked for, so that people mean it by
// their last change.
func changesAgents(past display.Record) bool {
	in := past.GetIntent()
	if in.GetDryRun() || in.GetSource() != nil {
		return false
	}
	switch in.GetAsk().(type) {
	case *intentv1.Intent_Install, *intentv1.Intent_Configure, *intentv1.Intent_Remove, *intentv1.Intent_Upgrade,
		*intentv1.Intent_Undo, *intentv1.Intent_Rollout:
		return true
	}
	return false
}

// whyNoUndo returns why an intent has nothing to undo, as the list of intents alone knows it; "" when it may have.
func whyNoUndo(past display.Record) string {
	switch in := past.GetIntent(); {
	case in.GetUndo() != nil || in.GetRollout().GetUndoOf() != "":
		return "it is an undo"
	case display.Restarts(in.GetUpgrade()):
		return "a restart leaves nothing to go back to"
	case in.GetRollout() == nil && past.GetChanged() == 0:
		return "it changed no server"
	}
	return ""
}

// nothingLeft returns why an undo of an intent would change no server; "" when it would, or when it is refused for
// another reason, which the undo itself says.
func nothingLeft(ctx context.Context, env *cli.Env, w work.Flags, past display.Record) (string, error) {
	if past.GetIntent().GetRollout() != nil {
		return nothingLeftOf(ctx, env, past)
	}
	in := undoOf(past.GetId())
	w.Set(in)
	r, err := cli.Call[*registryv1.PlanIntentResponse](ctx, env, &registryv1.PlanIntentRequest{
		Intent: in, Page: &apiv1.Page{Limit: 1},
	})
	if err != nil {
		return "", err
	}
	for _, plan := range r.GetPlans() {
		switch why := plan.GetRefusal(); why.GetCode() {
		case code.NotUndoable, code.ChangedSince:
			return display.Reason(why), nil
		}
		if plan.GetRefusal() != nil || plan.GetChanged() > 0 {
			return "", nil
		}
	}
	return "its servers have what was there before it, or another change came after it", nil
}

// nothingLeftOf returns why there is nothing to undo of a rollout; "" when there is.
func nothingLeftOf(ctx context.Context, env *cli.Env, past display.Record) (string, error) {
	q := &registryv1.GetRolloutRequest{RolloutId: past.GetId()}
	r, err := cli.Call[*registryv1.GetRolloutResponse](ctx, env, q)
	switch {
	case fault.Is(err, fault.NotFound):
		return "the rollout is no longer kept", nil
	case err != nil:
		return "", err
	case r.GetRollout().GetState() == rolloutv1.State_STATE_UNDONE:
		return "the rollout is undone already", nil
	case rollout.Changed(r.GetRollout()) == 0:
		return "the rollout changed no server", nil
	}
	return "", nil
}
