package watch

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/topology"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// conclude prints the tasks and the command that undoes them. Tables show every task of a small intent and the first
// failures of a large one; other formats have every task that is kept.
func (v *watcher) conclude(ctx context.Context) error {
	shown := v.rows()
	if !v.env.Output.IsTable() {
		var err error
		if shown, err = v.allTasks(ctx); err != nil {
			return err
		}
	}
	view := v.env.Output.View()
	view.Names = v.names
	if len(shown) > 0 || !v.env.Output.IsTable() {
		if err := output.ShowIn(v.env.Output, view, display.Tasks, &dispatcherv1.ListTasksResponse{},
			shown); err != nil {
			return err
		}
	}
	v.sayGroups(shown)
	v.sayUnshown()
	n := v.tally()
	v.env.Say("%s", v.doneText(n))
	what := "to undo"
	if n.succeeded == 0 && n.failed > 0 { // nothing changed, and it is wanted all the same
		what = "to stop wanting it"
	}
	for i, o := range v.orders {
		if !wentBack(o, v.progress[i].GetCounts()) {
			sayUndo(v.env, o, what)
		}
	}
	return cli.Ended(n.Code())
}

// wentBack reports whether every change of an order was undone by its server, so that what was there before is wanted
// again. A first installation has nothing before it.
func wentBack(o Order, c *dispatcherv1.IntentCounts) bool {
	if o.Intent.GetUpgrade() == nil && o.Intent.GetConfigure() == nil {
		return false
	}
	return c.GetUndone() > 0 && int(c.GetUndone()) == display.Changes(c)
}

// allTasks returns every kept task of the orders.
func (v *watcher) allTasks(ctx context.Context) ([]display.Task, error) {
	var out []display.Task
	for i, o := range v.orders {
		tasks, err := v.tasksOf(ctx, o, v.progress[i])
		if err != nil {
			return nil, err
		}
		if missing := display.Changes(v.progress[i].GetCounts()) - len(tasks); missing > 0 {
			v.env.Say("note: %d changes of intent %s have no row: their tasks are no longer kept or never existed",
				missing, ident.Handle(o.Id))
		}
		out = append(out, tasks...)
	}
	_ = fleet.OpenOutputs(ctx, v.env, out[:min(len(out), NamedEnds)]) // a viewer sees the rest
	return out, nil
}

// tasksOf returns the tasks of an order, from its progress if that has all of them.
func (v *watcher) tasksOf(ctx context.Context, o Order, p display.Progress) ([]display.Task, error) {
	if len(p.GetTasks()) > 0 || display.Changes(p.GetCounts()) == 0 {
		return endRows(p), nil
	}
	r, err := fleet.Tasks(ctx, v.env, cli.PageFlags{}, &dispatcherv1.ListTasksRequest{IntentId: o.Id})
	return lastTries(r.GetTasks()), err
}

// sayUnshown prints how to list the failures that are not shown.
func (v *watcher) sayUnshown() {
	for i, o := range v.orders {
		p := v.progress[i]
		n := display.Failed(p.GetCounts()) - display.NeverBegan(p.GetCounts())
		if v.env.Output.IsTable() && len(p.GetTasks()) == 0 && n > len(p.GetFailures()) {
			v.env.Say("… and %d more failed: garrison task list --intent %s --state %s --limit all",
				n-len(p.GetFailures()), ident.Handle(o.Id), failureWords())
		}
	}
}

// failureWords returns the words of the states of tasks that ended without success.
func failureWords() string {
	var out []string
	for s := taskv1.State_STATE_SUCCEEDED + 1; s <= taskv1.State_STATE_SUPERSEDED; s++ {
		out = append(out, listing.Word(s))
	}
	return strings.Join(out, ",")
}

// doneText returns the outcome of the orders: its counts, or what was done without a task.
func (v *watcher) doneText(n counts) string {
	switch first := v.orders[0]; {
	case n.succeeded+n.failed > 0:
	case first.Without != "":
		return "done: " + first.Without
	case first.Intent.GetReinstall() != nil:
		return "done: empty; there was no agent to remove"
	}
	return fmt.Sprintf("%s after %s", n, v.env.Now().Sub(v.started).Round(10*time.Millisecond))
}

// tally counts the outcomes of the changes of all orders.
func (v *watcher) tally() counts {
	sum := v.sum()
	n := counts{succeeded: int(sum.GetSucceeded()), failed: display.Failed(sum)}
	for _, part := range display.CountTexts(sum) {
		if part.Ended {
			n.how = append(n.how, part.Text)
		}
	}
	return n
}

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
	if o.Record.GetChanged() > 0 && !display.Restarts(o.Intent.GetUpgrade()) {
		env.Say("%s: %s", what, display.UndoCommand(o.Id, o.Intent.GetOverride()))
	}
}

// counts is the number of changes by outcome.
type counts struct {
	succeeded, failed int
	how               []string // the outcomes of those that failed
}

// Tally counts tasks by outcome.
func Tally(tasks []display.Task) counts {
	var n counts
	for _, t := range tasks {
		switch {
		case t.GetState() == taskv1.State_STATE_SUCCEEDED:
			n.succeeded++
		case display.TaskEnded(t):
			n.failed++
		}
	}
	return n
}

// String implements fmt.Stringer.
func (n counts) String() string {
	text := fmt.Sprintf("done: %s succeeded", listing.Plural(n.succeeded, "task"))
	switch {
	case n.failed == 0:
		return text
	case n.succeeded == 0:
		text = fmt.Sprintf("failed: 0 of %s succeeded", listing.Plural(n.failed, "task"))
	default:
		text += fmt.Sprintf(", %d failed", n.failed)
	}
	if len(n.how) > 0 {
		text += " (" + strings.Join(n.how, ", ") + ")"
	}
	return text
}

// Code returns the exit code: 0 when all succeeded, 5 when some did, else 1.
func (n counts) Code() int {
	switch {
	case n.failed == 0:
		return cli.ExitOK
	case n.succeeded > 0:
		return cli.ExitPartly
	}
	return cli.ExitError
}
