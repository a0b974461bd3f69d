package change

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
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
it is your last change that can be undone.

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
				past, err = lastChange(c.Context(), env)
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
	return c
}

// undo undoes an intent: as a rollout when it was one, when it changed many servers, or when that is asked for.
func undo(ctx context.Context, env *cli.Env, w work.Flags, waves Waves, past display.Record, asRollout bool) error {
	if asRollout || past.GetIntent().GetRollout() != nil {
		return waves.Undo(ctx, past.GetId(), w)
	}
	id := past.GetId()
	err := work.Propose(ctx, env, w, work.Proposal{
		Verb: topology.VerbUndo, Question: "Undo intent " + id, Asks: asked(undoOf(id)), Differs: true,
	})
	if fault.RefusalOf(err).GetCode() == code.TooWide {
		return waves.Undo(ctx, id, w)
	}
	return err
}

func undoOf(id string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id}}}
}

const (
	// mostLooked is how many of the caller's last intents are looked at for one that can be undone.
	mostLooked = 20
	// mostAsked is how many of them the registry is asked about. Each costs it a plan.
	mostAsked = 5
)

// lastChange returns the last change of the caller that can be undone, and says which it is.
func lastChange(ctx context.Context, env *cli.Env) (display.Record, error) {
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
	asked := 0
	for _, past := range r.GetIntents() {
		if !undoes(past) {
			continue
		}
		if asked++; asked > mostAsked {
			break
		}
		can, err := undoable(ctx, env, past)
		if err != nil {
			return nil, err
		}
		if can {
			env.Say("your last change: %s, %s, %s", display.BriefText(past.GetIntent()),
				output.Stamp(past.GetDecidedAt()), output.ShortID(env.Output.View(), past.GetId()))
			return past, nil
		}
	}
	of := c.Actor() + " changed nothing yet"
	if asked > 0 {
		of = "not one of the last " + output.Plural(min(asked, mostAsked), "change") + " of " + c.Actor()
	}
	return nil, cli.Usage("no change of yours can be undone: %s. Try: garrison undo --list, or garrison intent list",
		of)
}

// undoes reports whether there is an undo of what an intent did, as the list of intents alone knows it.
func undoes(past display.Record) bool {
	in := past.GetIntent()
	if past.GetChanged() == 0 || in.GetDryRun() || in.GetSource() != nil || in.GetRollout().GetUndoOf() != "" {
		return false
	}
	return in.GetRollout() != nil || in.GetInstall() != nil || in.GetConfigure() != nil || in.GetRemove() != nil ||
		in.GetUpgrade() != nil && !display.Restarts(in.GetUpgrade())
}

// undoable reports whether an undo of an intent would change a server.
func undoable(ctx context.Context, env *cli.Env, past display.Record) (bool, error) {
	if past.GetIntent().GetRollout() != nil {
		return undoableRollout(ctx, env, past)
	}
	r, err := cli.Call[*registryv1.PlanIntentResponse](ctx, env, &registryv1.PlanIntentRequest{
		Intent: undoOf(past.GetId()), Page: &apiv1.Page{Limit: 1},
	})
	if err != nil || len(r.GetPlans()) == 0 {
		return false, err
	}
	plan := r.GetPlans()[0]
	return plan.GetChanged() > 0 && (plan.GetRefusal() == nil || plan.GetRefusal().Code == code.TooWide), nil
}

// undoableRollout reports whether a rollout changed servers and was not undone.
func undoableRollout(ctx context.Context, env *cli.Env, past display.Record) (bool, error) {
	q := &registryv1.GetRolloutRequest{RolloutId: past.GetId()}
	r, err := cli.Call[*registryv1.GetRolloutResponse](ctx, env, q)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	undone := r.GetRollout().GetState() == rolloutv1.State_STATE_UNDONE
	return err == nil && !undone && rollout.Changed(r.GetRollout()) > 0, err
}
