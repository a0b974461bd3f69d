package watch

import (
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// SayUndo prints the command that undoes an order, for verbs that can be undone.
func SayUndo(env *cli.Env, o Order) { sayUndo(env, o, "to undo") }

// sayUndo prints that command behind what it is for.
func sayUndo(env *cli.Env, o Order, what string) {
	switch o.Verb {
	case topology.VerbRefresh, topology.VerbDecommission, topology.VerbRelease, topology.VerbReinstall:
		return
	case topology.VerbAdopt:
		if a := o.Intent.GetAdopt(); o.Record.GetChanged() > 0 {
			env.Say("to let it go again: garrison instance release %s %s", a.GetServer(), a.GetAgent())
		}
		return
	}
	if o.Record.GetChanged() > 0 {
		env.Say("%s: garrison undo %s", what, o.Id)
	}
}
