package journal

import (
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Health is what was wrong with the old version just before the switch.
type Health struct {
	Code   string `json:"code"`           // as a Failure would have it
	What   string `json:"what,omitempty"` // the probe that failed, or how its process ended
	Reason string `json:"reason"`
}

// CodeBadAsBefore says that the new version failed in the way in which the old one already did.
const CodeBadAsBefore = "BAD_AS_BEFORE"

// judgement is how a change ended, and what is said of it.
type judgement struct {
	state        taskv1.State
	code, reason string
}

// judge decides how a change ended. A version that proves itself is kept, and otherwise
// what was there before is brought back, whatever it was: a version that works for
// nobody is no reason to run another one that does not. What the old version was before
// the switch decides what its failure to prove itself afterwards means.
//
//	old before  new      old in the undo   runs   ends as    code
//	any         proven   -                 new    succeeded
//	good        fails    proven            old    undone     the new one's
//	good        fails    not proven        old    failed     the new one's
//	bad         fails    proven            old    undone     the new one's, or BAD_AS_BEFORE
//	bad         fails    not proven        old    undone     the new one's, or BAD_AS_BEFORE
//	any         fails    not brought back  ?      failed     the new one's, or BAD_AS_BEFORE
//
// BAD_AS_BEFORE is said when the same probe fails or the process ends in the same way:
// then the cause is more likely something that both need than the new version.
func (c *Change) judge() judgement {
	f := c.Failure
	if f == nil {
		return judgement{state: taskv1.State_STATE_SUCCEEDED}
	}
	j := judgement{state: taskv1.State_STATE_UNDONE, code: f.Code, reason: f.Reason}
	if c.Verb == taskv1.Verb_VERB_REMOVE {
		j.state = taskv1.State_STATE_FAILED
	}
	if c.Before.same(f) {
		j.code = CodeBadAsBefore
	}
	if c.Before != nil && Touches(f.Step) {
		j.reason += "; the old version was bad before as well: " + c.Before.Reason
	}
	switch {
	case c.NotAsIs != "":
		j.state = taskv1.State_STATE_FAILED
		j.reason += "; then the undo went wrong: " + c.NotAsIs
	case c.NotProven != "" && c.Before == nil:
		j.state = taskv1.State_STATE_FAILED
		j.reason += "; then the old version did not prove itself: " + c.NotProven
	case c.NotProven != "":
		j.reason += "; it still is: " + c.NotProven
	}
	return j
}

// Touches reports whether something on the server may differ once a step has begun: from the
// switch on, and in any step that this version does not know.
func Touches(s taskv1.Step) bool {
	switch s {
	case taskv1.Step_STEP_UNSPECIFIED, taskv1.Step_STEP_CHECK, taskv1.Step_STEP_RESERVE, taskv1.Step_STEP_FETCH, taskv1.Step_STEP_VERIFY,
		taskv1.Step_STEP_STAGE, taskv1.Step_STEP_REHEARSE, taskv1.Step_STEP_SWEEP:
		return false
	}
	return true
}

// Touched says whether an interrupted change had begun to touch the agent itself.
func (c *Change) Touched() bool {
	return c.Verb == taskv1.Verb_VERB_REMOVE || Touches(c.Step) || c.Failure != nil || c.Committed
}

// same says whether a failure is what was wrong before. A probe that fails while a
// version is watched is the probe that fails.
func (h *Health) same(f *Failure) bool {
	if h == nil || h.What == "" || h.What != f.What {
		return false
	}
	code := f.Code
	if code == "UNSTABLE" {
		code = "NOT_READY"
	}
	return h.Code == code
}
