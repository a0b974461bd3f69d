package change

import (
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Life returns the table that a change follows.
func (r *Record) Life() Table {
	switch {
	case r.Removes():
		return Removal
	case r.To.IsSelf():
		return Self
	}
	return Bring
}

// Next returns the state that follows a step that ended with err. The record already has
// its Failure when the step failed.
func (r *Record) Next(at State, err error) State {
	next, _ := r.Life().Next(at, r.event(err))
	return next
}

func (r *Record) event(err error) Event {
	switch {
	case err == nil:
		return Done
	case r.touching():
		return Failing
	}
	return Refused
}

// Recover returns the state in which the journal shows a change, and the one from which it
// resumes after the executor ended. exhausted reports that it was interrupted too often to be resumed as it was.
func (r *Record) Recover() (at, next State, exhausted bool) {
	at = r.state()
	if r.exhausted(at) {
		if next, exhausted = r.Life().Next(at, Exhausted); exhausted {
			return at, next, true
		}
	}
	next, _ = r.Life().Next(at, Interrupted)
	return at, next, false
}

// state derives where the change was when its record was written.
func (r *Record) state() State {
	switch {
	case r.To.IsSelf() && r.Committed && r.Failure == nil:
		return Starting
	case r.Step == taskv1.Step_STEP_SWEEP:
		return r.sweeping()
	case r.Removes():
		return r.removing()
	case r.Committed:
		return Committed
	case r.Failure != nil:
		return r.failing()
	case r.To.IsSelf() && r.TrialPassed: // an interrupted trial showed nothing
		return Committing
	case r.To.IsSelf() && Touches(r.Step):
		return Trial
	case !Touches(r.Step) && r.ReplacesImage:
		return Replacing
	}
	return preparation(r.Step)
}

// failing returns the state of a change whose step failed.
func (r *Record) failing() State {
	if r.touching() {
		return RollingBack
	}
	return Restored
}

func (r *Record) sweeping() State {
	switch {
	case r.Committed && r.Failure == nil:
		return Committed
	case r.Committed || r.RollbackError != "":
		return Broken
	case r.Failure == nil:
		return Checking // no change of ours sweeps before it ended
	}
	return Restored
}

func (r *Record) removing() State {
	switch {
	case r.Committed && r.Failure != nil:
		return Broken
	case r.Committed:
		return Deleting
	case r.Failure != nil:
		return r.failing()
	case r.Step == taskv1.Step_STEP_DEFER:
		return Deferring
	case r.Step == taskv1.Step_STEP_COMMIT:
		return MovingOut
	case Touches(r.Step):
		return Stopping
	}
	return Checking
}

// preparation returns the state of a step when nothing else decides it. A step that this version
// does not know counts as one that touches the agent.
func preparation(s taskv1.Step) State {
	switch s {
	case taskv1.Step_STEP_UNSPECIFIED, taskv1.Step_STEP_CHECK:
		return Checking
	case taskv1.Step_STEP_RESERVE:
		return Reserving
	case taskv1.Step_STEP_FETCH:
		return Fetching
	case taskv1.Step_STEP_VERIFY:
		return Verifying
	case taskv1.Step_STEP_STAGE:
		return Staging
	case taskv1.Step_STEP_DEFER:
		return Deferring
	case taskv1.Step_STEP_REHEARSE:
		return Rehearsing
	case taskv1.Step_STEP_PROVE:
		return HealthChecking
	case taskv1.Step_STEP_COMMIT:
		return Committing
	}
	return Switching
}

// Touches reports whether something of the agent may differ once a step has begun: from the
// switch on, and in any step that this version does not know.
func Touches(s taskv1.Step) bool {
	switch s {
	case taskv1.Step_STEP_UNSPECIFIED,
		taskv1.Step_STEP_CHECK,
		taskv1.Step_STEP_RESERVE,
		taskv1.Step_STEP_FETCH,
		taskv1.Step_STEP_VERIFY,
		taskv1.Step_STEP_STAGE,
		taskv1.Step_STEP_DEFER,
		taskv1.Step_STEP_REHEARSE,
		taskv1.Step_STEP_SWEEP:
		return false
	}
	return true
}

// touching reports whether anything but the cache and the images may differ from before.
func (r *Record) touching() bool { return Touches(r.Step) || r.ReplacesImage }

// Touched reports whether an interrupted change had begun to touch the agent itself.
func (r *Record) Touched() bool {
	return Touches(r.Step) || r.Failure != nil || r.Committed
}
