package operator

import (
	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func (s *session) undoCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "undo INTENT", Short: "Go back to what was there before an intent", Args: exactly("INTENT"),
		SuggestFor: []string{"rollback", "revert"},
		Long: `Go back to what was there before an intent, on every server that it changed.

An agent that came goes again, one that went comes back, and a version and a configuration become what they
were. Servers that another intent changed since are left out and named.`,
		Example: "  garrison undo 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11",
		RunE: func(c *cobra.Command, a []string) error {
			if err := ident.Check("intent id", a[0]); err != nil {
				return usageError{err.Error()}
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: a[0]}}}
			p := proposal{verb: topology.VerbUndo, question: "Undo intent " + a[0], asks: asked(ask)}
			return s.propose(c.Context(), w, p)
		},
	}
	w.add(c, false)
	w.addStrict(c)
	w.addYes(c)
	return c
}

// sayUndo prints the line that undoes an order, when an intent can.
func (s *session) sayUndo(o order) {
	switch o.verb {
	case topology.VerbRefresh, topology.VerbDecommission:
		return
	}
	if o.record.GetChanged() > 0 {
		s.say("to undo: garrison undo %s", o.id)
	}
}
