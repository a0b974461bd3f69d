package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// conclude prints the tasks and the line that undoes them. People are shown every task of a small intent, and the first
// that did not succeed of a large one; scripts get every task that is kept.
func (v *watcher) conclude(ctx context.Context) error {
	shown := v.rows()
	if !v.s.output.isTable() {
		var err error
		if shown, err = v.allTasks(ctx); err != nil {
			return err
		}
	}
	view := v.s.view()
	view.names = v.names
	if len(shown) > 0 || !v.s.output.isTable() {
		if err := showIn(v.s, view, taskListing, &dispatcherv1.ListTasksResponse{}, shown); err != nil {
			return err
		}
	}
	v.sayUnshown()
	n := v.tally()
	v.s.say("%s", v.doneText(n))
	for _, o := range v.orders {
		v.s.sayUndo(o)
	}
	return ended(n.code())
}

// allTasks lists every task of the orders that is kept.
func (v *watcher) allTasks(ctx context.Context) ([]task, error) {
	var out []task
	for i, o := range v.orders {
		tasks, err := v.tasksOf(ctx, o, v.progress[i])
		if err != nil {
			return nil, err
		}
		if missing := changes(v.progress[i].GetCounts()) - len(tasks); missing > 0 {
			v.s.say("note: %d changes of intent %s have no row: their tasks are not kept any more, or never existed",
				missing, o.id)
		}
		out = append(out, tasks...)
	}
	return out, nil
}

// tasksOf lists the tasks of an order: those that are at hand when they are all.
func (v *watcher) tasksOf(ctx context.Context, o order, p progress) ([]task, error) {
	if len(p.GetTasks()) > 0 || changes(p.GetCounts()) == 0 {
		return endRows(p), nil
	}
	r, err := v.s.askTasks(ctx, pageFlags{}, &dispatcherv1.ListTasksRequest{IntentId: o.id})
	return lastTries(r.GetTasks()), err
}

// sayUnshown says where the failures are that are not shown.
func (v *watcher) sayUnshown() {
	for i, o := range v.orders {
		p := v.progress[i]
		n := failed(p.GetCounts()) - neverBegan(p.GetCounts())
		if v.s.output.isTable() && len(p.GetTasks()) == 0 && n > len(p.GetFailures()) {
			v.s.say("… and %d more that did not succeed: garrison task list --intent %s --state %s --limit 0",
				n-len(p.GetFailures()), o.id, failureWords())
		}
	}
}

// failureWords lists the states of tasks that ended and did not succeed.
func failureWords() string {
	var out []string
	for s := taskv1.State_STATE_SUCCEEDED + 1; s <= taskv1.State_STATE_SUPERSEDED; s++ {
		out = append(out, word(s))
	}
	return strings.Join(out, ",")
}

// doneText returns how it ended: by its counts, or what was done without any task.
func (v *watcher) doneText(n counts) string {
	if n.succeeded+n.failed == 0 && v.orders[0].without != "" {
		return "done: " + v.orders[0].without
	}
	return fmt.Sprintf("%s after %s", n, v.s.now().Sub(v.started).Round(10*time.Millisecond))
}

// counts is how changes ended.
type counts struct {
	succeeded, failed int
	how               []string // how those that did not succeed ended
}

// tally sums up how the changes of all orders ended.
func (v *watcher) tally() counts {
	sum := v.sum()
	n := counts{succeeded: int(sum.GetSucceeded()), failed: failed(sum)}
	for _, part := range countTexts(sum) {
		if part.ended {
			n.how = append(n.how, part.text)
		}
	}
	return n
}

// tally counts how tasks ended.
func tally(tasks []task) counts {
	var n counts
	for _, t := range tasks {
		switch {
		case t.GetState() == taskv1.State_STATE_SUCCEEDED:
			n.succeeded++
		case hasEnded(t):
			n.failed++
		}
	}
	return n
}

func (n counts) String() string {
	text := fmt.Sprintf("done: %s succeeded", plural(n.succeeded, "task"))
	if n.failed == 0 {
		return text
	}
	text += fmt.Sprintf(", %d did not", n.failed)
	if len(n.how) > 0 {
		text += " (" + strings.Join(n.how, ", ") + ")"
	}
	return text
}

func (n counts) code() int {
	switch {
	case n.failed == 0:
		return exitOK
	case n.succeeded > 0:
		return exitPartly
	}
	return exitError
}
