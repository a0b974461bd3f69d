package instance

import (
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// An intent may be withdrawn before its change of an instance began, or while the server defers it. The instance is
// then wanted again as its last change that began wanted it, without a task, because nothing was done.

// remember keeps the change that is about to be replaced, if it began.
func remember(i *instancev1.Instance) {
	if i.Begun {
		i.LastBegun = &instancev1.BegunChange{
			Wanted: i.Wanted, Configuration: i.Configuration, IntentId: i.IntentId, TaskGeneration: i.TaskGeneration,
			TaskId: i.TaskId, TaskState: i.TaskState, Reason: i.Reason, Before: i.Before,
		}
	}
	i.Begun, i.Withdrawn = false, false
}

// awaitTask sets the task that a change waits for: a new one, or, after a withdrawal, that of the change before.
func awaitTask(i *instancev1.Instance, withdrawn string) {
	i.TaskGeneration, i.TaskId, i.TaskState, i.TaskCode = i.Generation, "", taskv1.State_STATE_UNSPECIFIED, ""
	if l := i.LastBegun; withdrawn != "" && l != nil {
		i.TaskGeneration, i.TaskId, i.TaskState, i.Before = l.TaskGeneration, l.TaskId, l.TaskState, l.Before
		i.Begun, i.LastBegun = true, nil
	}
}

// reasonBefore returns the reason of the change before, when a withdrawal makes that one current again.
func reasonBefore(i *instancev1.Instance, withdrawn string) string {
	if withdrawn == "" {
		return ""
	}
	return i.GetLastBegun().GetReason()
}

// recordLastTask folds the state of a task into the change before the present one.
func recordLastTask(i *instancev1.Instance, t *taskv1.Task) {
	if l := i.LastBegun; l != nil && l.TaskGeneration == t.Generation {
		l.TaskId, l.TaskState, l.Reason = t.Id, t.State, reasonOf(t)
	}
}

// recordBegun records that the present change began, or did not begin after all: a change that ends as cancelled while
// it runs was given up by its server before it touched anything. An earlier attempt may have.
func recordBegun(i *instancev1.Instance, t *taskv1.Task) {
	switch t.State {
	case taskv1.State_STATE_ASSIGNED, taskv1.State_STATE_RUNNING:
		i.Begun = true
	case taskv1.State_STATE_SUCCEEDED, taskv1.State_STATE_FAILED, taskv1.State_STATE_UNDONE:
		i.Begun, i.LastBegun = true, nil
	case taskv1.State_STATE_CANCELLED:
		if i.TaskState == taskv1.State_STATE_RUNNING && t.Attempt <= 1 {
			i.Begun = false
		}
	}
}

// ApplyWithdrawal records that a task was cancelled because its intent was withdrawn.
func ApplyWithdrawal(i *instancev1.Instance, t *taskv1.Task) {
	i.Withdrawn = t.InstanceId == i.Id && t.Generation == i.TaskGeneration && !i.Begun
}
