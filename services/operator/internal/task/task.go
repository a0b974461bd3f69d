// Package task builds the commands of garrison task, list and show, and cancels tasks.
//
// A task that the dispatcher no longer keeps is read from the ledger by its whole id.
package task

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command task with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("task", "Show tasks: changes of one agent on one server.", listCommand(env), showCommand(env))
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show TASK",
		Example: "  garrison task show 65d947de",
		Short:   "Show all fields of a task, its steps, and the end of the agent's output after a failure.",
		Args:    cli.Exactly("TASK"),
		RunE: func(c *cobra.Command, a []string) error {
			t, err := fleet.Task(c.Context(), env, a[0])
			if fault.Is(err, fault.NotFound) {
				t, err = past(c.Context(), env, a[0], err)
			}
			if err != nil {
				return err
			}
			hidden := ""
			if err := fleet.OpenOutputs(c.Context(), env, []display.Task{t}); fault.Is(err, fault.Denied) {
				hidden = "only the roles operator and admin read the output of agents"
			} else if err != nil {
				return err
			}
			v := env.Output.View()
			v.Names = fleet.ServerNames(c.Context(), env, []display.Task{t})
			return output.ShowOne(env.Output, v, display.Tasks, t,
				[2]string{"FROM-IMAGE", refText(t.GetFrom())}, [2]string{"TO-IMAGE", refText(t.GetTo())},
				[2]string{"STEPS", display.Steps(t.GetOutcome())},
				[2]string{"LOG", cmp.Or(t.GetOutcome().GetLogTail(), hidden)})
		},
	}
}

func refText(r *imagev1.Ref) string {
	if r == nil {
		return ""
	}
	if len(r.GetDigest()) == 0 {
		return r.GetId()
	}
	return strings.TrimSpace(fmt.Sprintf("%s sha256:%.6x", r.GetId(), r.GetDigest()))
}

// Cancel cancels a task that is not assigned yet.
func Cancel(ctx context.Context, env *cli.Env, id, reason string) error {
	r, err := cli.Call[*dispatcherv1.CancelTaskResponse](ctx, env,
		&dispatcherv1.CancelTaskRequest{Task: id, Reason: reason})
	if err != nil {
		return err
	}
	env.Say("task %s cancelled", ident.Short(r.GetTask().GetId()))
	return show(ctx, env, nil, []display.Task{r.GetTask()})
}

// past reads a task from the ledger that the dispatcher no longer keeps. The ledger is searched by the whole id only.
// When the task is missing there too, past returns unknown.
func past(ctx context.Context, env *cli.Env, id string, unknown error) (display.Task, error) {
	if !ident.IsUUID(id) {
		env.Say("pass the whole id to search the ledger too")
		return nil, unknown
	}
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	var t *taskv1.Task
	for e, err := range c.Events(ctx, client.Query{Noun: ledger.Task, Key: id}) {
		if err != nil {
			return nil, err
		}
		if e.Unread != nil {
			continue
		}
		begins := t == nil
		if t, _ = task.Apply(t, e.Fact); begins && t != nil {
			if err := overtaken(ctx, c, t, e); err != nil {
				return nil, err
			}
		}
	}
	if t == nil {
		return nil, unknown
	}
	env.Say("the dispatcher no longer keeps this task; it is shown from the ledger")
	return t, nil
}

// overtaken refuses a task whose first fact assigns it for what had been decided anew by then: it never existed.
func overtaken(ctx context.Context, c *client.Client, t display.Task, first client.Event) error {
	if !instance.Overtaken(first.Body, "", 0) { // another fact, or one about no instance
		return nil
	}
	var i *instancev1.Instance
	key := ledger.Key(t.GetServerId(), t.GetAgent())
	for e, err := range c.Events(ctx, client.Query{Noun: ledger.Instance, Key: key}) {
		if err != nil {
			return err
		}
		if e.Sequence > first.Sequence {
			break
		}
		if e.Unread == nil {
			i, _ = instance.Apply(i, e.Fact)
		}
	}
	if !instance.Overtaken(first.Body, i.GetId(), i.GetGeneration()) {
		return nil
	}
	return fault.Refusef(fault.NotFound, code.NotFound,
		"the assignment of task %s is void: another decision about %s on its server was recorded before it",
		t.GetId(), t.GetAgent()).Try("garrison events --id " + t.GetId())
}
