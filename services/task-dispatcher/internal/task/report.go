package task

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The sizes to which what a server says is cut before it becomes a fact for ever.
const (
	MaxLogTail = 4 << 10
	MaxReason  = 1 << 10
	MaxCode    = 64
	MaxSteps   = 32
)

// Said is what a server reported of a task.
type Said struct {
	State   taskv1.State
	Outcome *taskv1.Outcome
	BootID  string
}

// Reported gives the fact that a report leads to for a task in the state now: nil when
// it repeats what is known. An error is Invalid: such a report is never believed.
func Reported(now taskv1.State, said Said) (proto.Message, error) {
	body, err := said.fact()
	if err != nil {
		return nil, err
	}
	if Ended(now) {
		return nil, nil // the end is in the ledger; the server just has not heard so yet
	}
	if said.State == taskv1.State_STATE_RUNNING && now == taskv1.State_STATE_RUNNING {
		return nil, nil
	}
	if _, ok := Next(now, FactOf(body)); !ok {
		return nil, fault.New(fault.Invalid, "a task that is %s cannot be %s", StateOf(now), StateOf(said.State))
	}
	return body, nil
}

// TakesLate reports whether a task's record can be completed by what its server says after
// its deadline: it expired, and the server has not said so yet.
func TakesLate(t *taskv1.Task) bool {
	return t.GetState() == taskv1.State_STATE_EXPIRED && t.GetReported() == taskv1.State_STATE_UNSPECIFIED
}

// Late returns the fact that a report of an end leads to for a task that expired, or nil.
// The task stays expired: it has one end.
func Late(t *taskv1.Task, said Said) proto.Message {
	if !TakesLate(t) || said.State == taskv1.State_STATE_RUNNING {
		return nil
	}
	return &taskv1.ReportedLate{State: said.State, Outcome: bounded(said.Outcome)}
}

// EndOf returns how a task ended, as it is said of it.
func EndOf(s taskv1.State) string {
	if s == taskv1.State_STATE_UNDONE {
		return "was undone"
	}
	return string(StateOf(s))
}

func (s Said) fact() (proto.Message, error) {
	switch s.State {
	case taskv1.State_STATE_RUNNING:
		return &taskv1.Started{BootId: tidy(s.BootID, MaxCode)}, nil
	case taskv1.State_STATE_SUCCEEDED:
		return &taskv1.Succeeded{Outcome: bounded(s.Outcome)}, nil
	case taskv1.State_STATE_FAILED:
		return &taskv1.Failed{Outcome: bounded(s.Outcome)}, nil
	case taskv1.State_STATE_UNDONE:
		return &taskv1.Undone{Outcome: bounded(s.Outcome)}, nil
	}
	return nil, fault.New(fault.Invalid, "a report that a task is %v is not believed (want running, succeeded, failed or undone)", s.State)
}

// bounded gives a copy of an outcome in which nothing is larger than it may be. Of the
// log the end is kept: that is where it says what went wrong.
func bounded(o *taskv1.Outcome) *taskv1.Outcome {
	if o == nil {
		return &taskv1.Outcome{}
	}
	out := &taskv1.Outcome{FailedStep: o.FailedStep, Code: tidy(o.Code, MaxCode), Reason: tidy(o.Reason, MaxReason), Steps: o.Steps}
	if len(out.Steps) > MaxSteps {
		out.Steps = out.Steps[:MaxSteps]
	}
	out.LogTail = o.LogTail
	if len(out.LogTail) > MaxLogTail {
		out.LogTail = out.LogTail[len(out.LogTail)-MaxLogTail:]
	}
	out.LogTail = strings.ToValidUTF8(out.LogTail, "")
	return out
}

// tidy cuts a text to n bytes, at the end of a character.
func tidy(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Sentence cuts what a person gave as a reason to what a fact keeps.
func Sentence(s string) string { return tidy(strings.ToValidUTF8(s, ""), MaxReason) }
