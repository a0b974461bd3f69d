package watch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// FollowTasks follows tasks until each has ended, and prints their outcomes; quiet shows no progress before.
func FollowTasks(ctx context.Context, env *cli.Env, timeout time.Duration, ids []string, quiet bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, cli.ErrWaited)
	defer cancel()
	v := &watcher{env: env, names: map[string]string{}, reported: map[string]bool{}, line: env.Live()}
	v.line.On = v.line.On && !quiet
	defer v.line.End()
	tasks := make([]display.Task, len(ids))
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	err = c.Await(ctx, func(ctx context.Context) (done bool, err error) {
		done = true
		for n, id := range ids {
			if tasks[n] == nil || !display.TaskEnded(tasks[n]) {
				if tasks[n], err = v.look(ctx, id, tasks[n]); err != nil {
					return false, err
				}
			}
			done = done && display.TaskEnded(tasks[n])
		}
		return done, nil
	})
	v.line.End()
	if err != nil {
		return env.Left(ctx, err, "garrison watch "+strings.Join(ids, " "))
	}
	view := env.Output.View()
	view.Names = v.names
	whole := &dispatcherv1.ListTasksResponse{}
	if err := output.ShowIn(env.Output, view, display.Tasks, whole, tasks); err != nil {
		return err
	}
	env.Say("%s", Tally(tasks))
	return cli.Ended(Tally(tasks).Code())
}

// look reads a task and shows where it is. A service that does not answer for a moment changes nothing that is known.
func (v *watcher) look(ctx context.Context, id string, before display.Task) (display.Task, error) {
	t, err := fleet.Task(ctx, v.env, id)
	if err != nil {
		if fault.Is(err, fault.Unavailable) {
			v.line.Set("the service does not answer; retrying")
		}
		return before, err
	}
	if _, ok := v.names[t.GetServerId()]; !ok {
		v.names[t.GetServerId()] = fleet.ServerNames(ctx, v.env, []display.Task{t})[t.GetServerId()]
	}
	if err := fleet.StateKnown(t); err != nil {
		return t, err
	}
	if display.TaskEnded(t) {
		v.line.Say("%s", v.endText(t))
		return t, nil
	}
	text := v.name(t) + ": " + display.VerbText(t) + " " + t.GetAgent() + ": " + listing.Word(t.GetState())
	if step := display.LiveText(v.env.Output.View(), t); step != "" {
		text += ", " + step
	}
	if t.GetReason() != "" {
		text += ": " + t.GetReason()
	}
	v.line.Set("%s  %s", ident.Short(t.GetId()), text)
	return t, nil
}

// failed reports whether a task ended without success.
func failed(t display.Task) bool {
	return display.TaskEnded(t) && t.GetState() != taskv1.State_STATE_SUCCEEDED
}

func endRows(p display.Progress) []display.Task {
	if len(p.GetTasks()) > 0 {
		return lastTries(slices.Clone(p.GetTasks()))
	}
	return p.GetFailures()
}

// lastTries returns the last attempt for each server and agent.
func lastTries(tasks []display.Task) []display.Task {
	last := map[[2]string]display.Task{}
	for _, t := range tasks {
		key := [2]string{t.GetServerId(), t.GetAgent()}
		if have := last[key]; have == nil || later(t, have) {
			last[key] = t
		}
	}
	return slices.DeleteFunc(tasks,
		func(t display.Task) bool { return last[[2]string{t.GetServerId(), t.GetAgent()}] != t })
}

func later(a, b display.Task) bool {
	if a.GetGeneration() != b.GetGeneration() {
		return a.GetGeneration() > b.GetGeneration()
	}
	return a.GetAttempt() > b.GetAttempt()
}
