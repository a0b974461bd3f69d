package instance

import (
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// A change of an instance is off when its intent was withdrawn before it began or while the server defers it, and when
// the server undid it. The instance is then wanted again as the change before wanted it, without a task: that is what
// is there.

// remember keeps the change that is about to be replaced, if it began.
func remember(i *instancev1.Instance) {
	if i.Begun {
		earlier := i.LastBegun
		if earlier != nil {
			earlier.Earlier = nil // one of them at most is deferred
		}
		i.LastBegun = &instancev1.BegunChange{
			Wanted: i.Wanted, Configuration: i.Configuration, IntentId: i.IntentId, TaskGeneration: i.TaskGeneration,
			TaskId: i.TaskId, TaskState: i.TaskState, Reason: i.Reason, Before: i.Before, Earlier: earlier,
		}
	}
	i.Begun, i.Reverts = false, false
}

// awaitTask sets the task that a change waits for: a new one, or, after a reverted change, that of the change before.
func awaitTask(i *instancev1.Instance, reverted string) {
	i.TaskGeneration, i.TaskId, i.TaskState = i.Generation, "", taskv1.State_STATE_UNSPECIFIED
	i.TaskCode, i.TaskWaits = "", ""
	if l := i.LastBegun; reverted != "" && l != nil {
		i.TaskGeneration, i.TaskId, i.TaskState, i.Before = l.TaskGeneration, l.TaskId, l.TaskState, l.Before
		i.Begun, i.LastBegun = true, l.Earlier
	}
}

// reasonBefore returns the reason of the change before, when a revert makes that one current again.
func reasonBefore(i *instancev1.Instance, reverted string) string {
	if reverted == "" {
		return ""
	}
	return i.GetLastBegun().GetReason()
}

// recordLastTask folds the state of a task into the change before the present one. One that its server gave up or undid
// is as if it never began, so that the change before it is the last one that did.
func recordLastTask(i *instancev1.Instance, t *taskv1.Task) {
	l := i.LastBegun
	if l == nil || l.TaskGeneration != t.Generation {
		return
	}
	switch {
	case untouched(l.TaskState, t), t.State == taskv1.State_STATE_UNDONE && l.Earlier.GetWanted() != nil:
		i.LastBegun = l.Earlier
		return
	case done(t.State):
		l.Earlier = nil
	}
	l.TaskId, l.TaskState, l.Reason = t.Id, t.State, reasonOf(t)
}

// recordBegun records that the present change began, or is off after all. Where it is wanted again since the change
// after it was withdrawn, it is as if it were withdrawn too: what was there before both is wanted.
func recordBegun(i *instancev1.Instance, t *taskv1.Task) {
	switch {
	case t.State == taskv1.State_STATE_ASSIGNED || t.State == taskv1.State_STATE_RUNNING:
		i.Begun = true
	case t.State == taskv1.State_STATE_UNDONE && wentBack(i):
		i.Begun, i.Reverts = false, true
	case done(t.State):
		i.Begun, i.LastBegun = true, nil
	case untouched(i.TaskState, t):
		i.Begun, i.Reverts = false, i.Reverts || i.Generation > i.TaskGeneration
	}
}

// wentBack reports whether a server that undid the present change has something else than it wanted: a repair that
// failed has not, and before a first installation there was nothing. What an operator removed stays removed.
func wentBack(i *instancev1.Instance) bool {
	l := i.LastBegun
	if l.GetWanted() == nil || i.Wanted == nil {
		return false
	}
	return !SameImage(l.Wanted, i.Wanted) || !SameConfiguration(l.Configuration, i.Configuration)
}

// done reports whether a task in a state brought about its change, or failed to.
func done(s taskv1.State) bool {
	return s == taskv1.State_STATE_SUCCEEDED || s == taskv1.State_STATE_FAILED || s == taskv1.State_STATE_UNDONE
}

// untouched reports whether a task touched nothing: one that ends as cancelled while it runs was given up by its
// server before it did. An earlier attempt may have.
func untouched(before taskv1.State, t *taskv1.Task) bool {
	return t.State == taskv1.State_STATE_CANCELLED && before == taskv1.State_STATE_RUNNING && t.Attempt <= 1
}

// ApplyWithdrawal records that a task was cancelled because its intent was withdrawn.
func ApplyWithdrawal(i *instancev1.Instance, t *taskv1.Task) {
	if t.InstanceId == i.Id && t.Generation == i.TaskGeneration && !i.Begun {
		i.Reverts = true
	}
}
