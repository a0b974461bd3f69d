package task

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

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
