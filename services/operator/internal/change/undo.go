package change

import (
	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// UndoCommand returns the command undo.
func UndoCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use: "undo INTENT", Short: "Restore the state before an intent.", Args: cli.OneIntent,
		SuggestFor: []string{"rollback", "revert"},
		Long: `Go back to what was there before an intent, on every server that it changed.

An agent that came goes again, one that went comes back, and a version and a configuration become what they
were. Servers that another intent changed since are left out and named. More than 100 servers go back in waves,
by garrison rollout undo INTENT, unless --at-once.`,
		Example: "  garrison undo 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11",
		RunE: func(c *cobra.Command, a []string) error {
			id, err := fleet.WholeIntent(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id}}}
			p := work.Proposal{Verb: topology.VerbUndo, Question: "Undo intent " + id, Asks: asked(ask), Differs: true}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	c.Flags().BoolVar(&w.AtOnce, "at-once", false, "also on more than 100 servers at once")
	w.Add(c, false)
	w.AddStrict(c)
	w.AddYes(c)
	return c
}
