package rollout

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

const (
	pending   = rolloutv1.TargetState_TARGET_STATE_PENDING
	reached   = rolloutv1.TargetState_TARGET_STATE_REACHED
	succeeded = rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
	broken    = rolloutv1.TargetState_TARGET_STATE_BROKEN
	leftOut   = rolloutv1.TargetState_TARGET_STATE_LEFT_OUT
	owed      = rolloutv1.TargetState_TARGET_STATE_OWED
	gone      = rolloutv1.TargetState_TARGET_STATE_GONE
)

// EventKind is what happened to a target.
type EventKind int

// The kinds of events.
const (
	Taken     EventKind = iota + 1 // its turn came: the fact released names it
	Released                       // a derived intent was accepted: Change, IntentID, UnhealthyBefore
	LeftOut                        // a derived intent left the server out: Reason
	Ended                          // a task ended: Change, OK, Generation, Reason when it did not succeed
	Seen                           // an agent was observed: Change, Generation, OK, Reason when it is not healthy
	Unhealthy                      // an agent on the server is not healthy: Agent, Reason
	Silent                         // the server was away for too long: Reason
	Away                           // the server went offline
	Back                           // the server is online again
	Gone                           // the server is dying, dead or forgotten
	Finished                       // the rollout succeeded before it reached the server: Reason
	Withheld                       // a change was withdrawn before it began, since the rollout stopped: Change, Reason
)

// Event is something that happened to a target.
type Event struct {
	Kind            EventKind
	At              time.Time
	Step            uint32 // of Taken: the step that begins; 0 counts as 1
	Change          int    // the position of the change
	IntentID        string // the derived intent
	UnhealthyBefore []string
	OK              bool
	Generation      uint64 // of Ended: what an observation must show, 0 for none; of Seen: what it shows
	Agent           string
	Reason          *apiv1.Refusal
	FailedStep      string // of Ended: the step of the executor that failed
}

// Move applies an event to a target of a rollout, and returns its states before and after. Both are equal when the
// event does not move it. Move changes only the target: Apply counts as well.
func Move(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) (from, to rolloutv1.TargetState) {
	from = t.State
	to = next(r, t, e)
	if from == to {
		return from, to
	}
	t.State, t.Since, t.Reason, t.FailedStep = to, timestamppb.New(e.At), nil, e.FailedStep
	switch to {
	case broken, leftOut, owed:
		t.Reason = reason(t, e)
	case reached:
		if in(from, pending, owed) {
			t.TakenAt = t.Since
		}
	}
	return from, to
}

// reason returns why an event moves a target.
func reason(t *rolloutv1.Target, e Event) *apiv1.Refusal {
	switch {
	case e.Reason != nil:
		return e.Reason
	case e.Kind == Silent && t.UnseenSince != nil && t.SilentSince == nil:
		return halt(code.SilentSinceReached, "its changes succeeded, but no report showed its agents after them")
	case e.Kind == Silent:
		return halt(code.SilentSinceReached, "the server was silent for too long after it was reached")
	case e.Kind == Unhealthy:
		return halt(code.UnhealthySinceReach, "%s became unhealthy after the server was reached", e.Agent)
	case e.Kind == Away:
		return halt(code.AwayAtItsTurn, "the server is offline; it is served when it is back")
	case e.Kind == Finished:
		return halt(code.NotReachedAtTheEnd, "the rollout ended before it reached the server")
	case e.Kind == Ended:
		return halt(code.ChangedSince, "the rollout stopped before the other changes of this step began")
	}
	return nil
}

// next returns the state that follows. It records in the target what the event says of its changes.
func next(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	switch e.Kind {
	case Taken:
		return taken(t, e)
	case Released:
		return released(t, e)
	case LeftOut:
		if in(t.State, pending, owed, reached) {
			return leftOut
		}
	case Ended:
		return ended(t, e)
	case Seen:
		return seen(t, e)
	case Unhealthy, Silent:
		if breaks(t, e) {
			return broken
		}
	case Gone:
		if in(t.State, pending, owed, reached, succeeded, leftOut) { // a broken one stays what it is: damage
			return gone
		}
	case Away, Finished, Back:
		return waiting(r, t, e)
	case Withheld:
		return withheld(r, t, e)
	}
	return t.State
}

// taken notes which step of the changes begins. The answers to its intents may have been folded before.
func taken(t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	if in(t.State, pending, owed, reached, succeeded, broken) {
		t.Step = max(t.Step, e.Step, 1)
	}
	if !in(t.State, pending, owed) {
		return t.State
	}
	t.UnhealthyBefore = e.UnhealthyBefore
	return reached
}

// breaks reports whether a server that became unhealthy or silent is broken by the rollout.
func breaks(t *rolloutv1.Target, e Event) bool {
	if e.Kind == Silent {
		return in(t.State, reached, succeeded)
	}
	counts := !slices.Contains(t.UnhealthyBefore, e.Agent)
	return counts && (t.State == succeeded || t.State == reached && settled(t, e.Agent) || half(t, e.Agent))
}

// half reports whether a target was left out after the change of one of its agents had succeeded. What that agent does
// counts as on any other server.
func half(t *rolloutv1.Target, agent string) bool {
	for i, id := range t.IntentIds {
		if t.State == leftOut && id != "" && t.Changes[i].Agent == agent && done(t, i) {
			return true
		}
	}
	return false
}

// waiting returns the state after a server that was not reached went away or came back, or the rollout ended.
func waiting(r *rolloutv1.Rollout, t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	w := rollouts.Wave(r, t.Wave)
	switch {
	case e.Kind == Back && t.State == owed && w != nil && w.PassedAt == nil:
		return pending
	case e.Kind != Back && t.State == pending:
		return owed
	}
	return t.State
}

// released notes the intent of one change.
func released(t *rolloutv1.Target, e Event) rolloutv1.TargetState {
	if !in(t.State, pending, owed, reached, broken) || e.Change >= max(len(t.Changes), 1) {
		return t.State
	}
	if in(t.State, pending, owed) {
		t.UnhealthyBefore = e.UnhealthyBefore
	}
	for len(t.IntentIds) <= e.Change {
		t.IntentIds = append(t.IntentIds, "")
	}
	t.IntentIds[e.Change] = e.IntentID
	if t.State == broken { // another change of the same release failed: what was asked is to be taken back too
		return broken
	}
	return reached
}

// settled reports whether what is seen of an agent counts already: while its own change is under way or was not
// observed, it does not.
func settled(t *rolloutv1.Target, agent string) bool {
	for i, c := range t.Changes {
		if c.Agent == agent && StepOf(c) <= max(t.Step, 1) && !done(t, i) {
			return false
		}
	}
	return true
}

func in(s rolloutv1.TargetState, states ...rolloutv1.TargetState) bool {
	return slices.Contains(states, s)
}

// Touched reports whether a rollout changed a server or may have, so that an undo must take it back.
func Touched(t *rolloutv1.Target) bool { return in(t.State, reached, succeeded, broken) }
