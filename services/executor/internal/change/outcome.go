package change

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/visible"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Outcome is how a change ended, and why.
type Outcome struct {
	State        taskv1.State
	Code, Reason string
}

// Outcome decides how a change ended. A version that passes its health check is kept.
// Otherwise the version before it comes back, however healthy that was. Its health before
// the switch decides what a failed health check after the rollback means:
//
//	old before  new      old after rollback  runs   ends as    code
//	any         healthy  -                   new    succeeded
//	healthy     fails    healthy             old    undone     the new one's
//	healthy     fails    unhealthy           old    failed     the new one's
//	unhealthy   fails    healthy             old    undone     the new one's, or BAD_AS_BEFORE
//	unhealthy   fails    unhealthy           old    undone     the new one's, or BAD_AS_BEFORE
//	any         fails    rollback failed     ?      failed     the new one's, or BAD_AS_BEFORE
//
// BAD_AS_BEFORE means that the same probe fails or the process ends in the same way: then
// the cause is more likely something that both need than the new version.
func (r *Record) Outcome() Outcome {
	f := r.Failure
	if f == nil {
		return Outcome{State: taskv1.State_STATE_SUCCEEDED}
	}
	o := Outcome{State: taskv1.State_STATE_UNDONE, Code: f.Code, Reason: f.Reason}
	if r.Removes() && (r.Verb == taskv1.Verb_VERB_REMOVE || r.Committed) && f.Code != code.GivenUp {
		o.State = taskv1.State_STATE_FAILED
	}
	if r.OldHealth.same(f) {
		o.Code = code.BadAsBefore
	}
	if r.OldHealth != nil && Touches(f.Step) {
		o.Reason += "; the old version was unhealthy before the change: " + r.OldHealth.Reason
	}
	switch {
	case r.RollbackError != "":
		o.State = taskv1.State_STATE_FAILED
		o.Reason += "; then the rollback failed: " + r.RollbackError
	case r.OldUnhealthy != "" && r.OldHealth == nil:
		o.State = taskv1.State_STATE_FAILED
		o.Reason += "; then the old version failed its health check: " + r.OldUnhealthy
	case r.OldUnhealthy != "":
		o.Reason += "; it still is: " + r.OldUnhealthy
	}
	return o
}

// Report returns what is reported of the change when it has ended. Programs print what they are configured with, so
// the secrets of both versions are taken out.
func (r *Record) Report() *taskv1.Outcome {
	is := r.Outcome()
	o := &taskv1.Outcome{Code: is.Code, Reason: r.Scrub(is.Reason)}
	if r.Adopts() && is.State == taskv1.State_STATE_SUCCEEDED {
		o.Adoption = r.Adoption.Report()
	}
	if f := r.Failure; f != nil {
		o.FailedStep, o.LogTail = f.Step, r.Scrub(f.LogTail)
		if r.OldOutput != "" {
			o.LogTail = strings.TrimSuffix(o.LogTail, "\n") + task.OldOutput + r.Scrub(r.OldOutput)
		}
	}
	for _, s := range r.Steps {
		o.Steps = append(o.Steps, &taskv1.StepTime{Step: s.Step, Took: durationpb.New(s.Took)})
	}
	return o
}

// Scrub takes the secrets of both versions out of a text.
func (r *Record) Scrub(text string) string {
	text = secret.Scrub(text, r.Secrets)
	if r.From != nil {
		text = secret.Scrub(text, r.From.Secrets)
	}
	return text
}

// same reports whether a failure is what was wrong before. A probe that fails during the
// soak is the probe that fails.
func (h *Health) same(f *Failure) bool {
	if h == nil || h.What == "" || h.What != f.What {
		return false
	}
	now := f.Code
	if now == code.Unstable {
		now = code.NotReady
	}
	return h.Code == now
}

// OneLine returns an error's text as one line, as records and reports hold it. What an agent says has no effect on the
// terminal of a reader.
func OneLine(err error) string {
	return visible.Line(err.Error())
}

// FailedByVersion reports whether a change failed because of what it brought, as far as its server can tell. A repair
// brings what ran before.
func (r *Record) FailedByVersion() bool {
	switch f := r.Failure; {
	case f == nil || r.Removes():
		return false
	case f.Code == code.CrashedExecutor:
		return true
	case r.Repairs != "":
		return false
	}
	switch r.Failure.Code {
	case code.NoSpace, code.GivenUp, code.NotWanted, code.ServerDead:
		return false
	}
	return Touches(r.Failure.Step)
}

// An executor that ended without being stopped may have been taken down by what the change runs, and the machine with
// it. So an interrupted change is resumed a bounded number of times: the journal counts its interruptions before
// anything of it runs again.

const (
	// MaxCrashes is how many interruptions a change survives while the new version may run. Then it is rolled back.
	MaxCrashes = 2
	// MaxInterruptions is how many it survives in other states, which run nothing new.
	MaxInterruptions = 10
)

// Interruptions counts how often the executor ended during a change.
type Interruptions struct {
	Crashes int `json:"crashes,omitempty"` // without being stopped, while the new version or its rehearsal may have run
	Others  int `json:"others,omitempty"`
}

// Interrupt counts that the executor ended during the change. One that was stopped counts only where the new version
// may run, and then as one of MaxInterruptions: the version may be what stops it.
func (r *Record) Interrupt() {
	stopped, runsNew := r.Stopped, r.runsNew(r.state())
	r.Stopped = false
	switch {
	case runsNew && !stopped:
		r.Interruptions.Crashes++
	case runsNew || !stopped:
		r.Interruptions.Others++
	}
}

// runsNew reports whether the new version, or its rehearsal, may run in a state. A trial of the executor's own program
// is not repeated, and its starts are counted beside the journal.
func (r *Record) runsNew(at State) bool {
	switch at {
	case Rehearsing:
		return true
	case Switching, HealthChecking, Committing:
		return !r.To.IsSelf()
	}
	return false
}

// exhausted reports whether a change was interrupted too often to be resumed in a state.
func (r *Record) exhausted(at State) bool {
	return r.Interruptions.Others >= MaxInterruptions || r.runsNew(at) && r.Interruptions.Crashes >= MaxCrashes
}
