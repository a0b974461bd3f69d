// Package report decides which facts a server's report of a task leads to.
//
// It is pure. Guarantees:
//
//  1. A report is believed only from the task's own server, while that server is enrolled, and only
//     about a task that was assigned. Any other report is refused as Invalid.
//  2. A report that repeats what is recorded leads to no fact.
//  3. No start of a task follows its end, in whichever order the reports arrive.
//  4. Texts and lists of a report are cut to a bound before they become a fact.
package report

import (
	"crypto/sha256"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The sizes to which the texts and lists of a report are cut before they become a fact.
const (
	MaxLogTail = 4 << 10
	MaxReason  = 1 << 10
	MaxCode    = 64
	MaxSteps   = 32
)

// ErrIgnored is wrapped by the error of a report that is dropped without a trace in the ledger.
var ErrIgnored = errors.New("report ignored")

// Decide returns the facts that a report leads to for a task, in order; none when it repeats what is
// recorded. A server reports the start of a task that takes longer than a second, so an end without a
// recorded start is as good as any. The task is nil when it is unknown,
// the server is the one that reports. An error is Invalid when such a report is never believed, or
// wraps ErrIgnored.
func Decide(
	t *taskv1.Task, server *dispatcherv1.ServerRecord, r *reportv1.Report, of Deferrable,
) ([]proto.Message, error) {
	if err := believed(t, server, r); err != nil {
		return nil, err
	}
	said := r.GetTask()
	body, err := factAbout(t, r, of)
	switch {
	case err != nil:
		return nil, err
	case task.AwaitsReport(t) && said.State != taskv1.State_STATE_RUNNING:
		return []proto.Message{&taskv1.ReportedLate{State: said.State, Outcome: bounded(said.Outcome)}}, nil
	case task.Ended(t.State):
		return nil, nil // the end is recorded; the server does not know that yet
	case said.State == taskv1.State_STATE_RUNNING && said.Deferral != nil && task.UnderWay(t.State):
		return deferral(t, r, of), nil
	case t.State == taskv1.State_STATE_RUNNING && said.State == taskv1.State_STATE_RUNNING:
		return nil, nil
	case t.State == taskv1.State_STATE_ASSIGNED && ledger.Fact{Body: body}.Name() == string(task.Cancelled):
		return []proto.Message{started(r.BootId), body}, nil // it is given up only once it began
	case !task.Fits(t, ledger.Fact{Body: body}):
		return nil, fault.New(fault.Invalid, "a task that is %s cannot be reported as %s",
			task.StateOf(t.State), task.StateOf(said.State))
	}
	return []proto.Message{body}, nil
}

// believed refuses a report that is dropped, or never believed.
func believed(t *taskv1.Task, server *dispatcherv1.ServerRecord, r *reportv1.Report) error {
	switch {
	case t == nil:
		return fault.New(fault.NotFound, "%w: the task is unknown, or was forgotten", ErrIgnored)
	case t.ServerId != r.ServerId:
		return fault.New(fault.Invalid, "server %s reports on task %s of server %s", r.ServerId, t.Id, t.ServerId)
	case server.GetLife() == serverv1.Life_LIFE_DEAD:
		return fault.New(fault.NotFound, "%w: the server is dead", ErrIgnored)
	case server.GetStanding() != serverv1.Standing_STANDING_ENROLLED:
		return fault.New(fault.Invalid, "server %s is shut out; its report on task %s is not believed",
			r.ServerId, t.Id)
	}
	return nil
}

func started(bootID string) *taskv1.Started { return &taskv1.Started{BootId: tidy(bootID, MaxCode)} }

// factAbout returns the fact that a report says of a task.
func factAbout(t *taskv1.Task, r *reportv1.Report, of Deferrable) (proto.Message, error) {
	said := r.GetTask()
	if said.Outcome.GetCode() == code.GivenUp && said.State == taskv1.State_STATE_UNDONE && task.UnderWay(t.State) {
		return givenUp(t, said.Outcome, of)
	}
	return factOf(t, r)
}

func factOf(t *taskv1.Task, r *reportv1.Report) (proto.Message, error) {
	s := r.GetTask()
	switch s.State {
	case taskv1.State_STATE_RUNNING:
		return started(r.BootId), nil
	case taskv1.State_STATE_SUCCEEDED:
		o := bounded(s.Outcome)
		var err error
		o.Shown, err = shown(t, r)
		return &taskv1.Succeeded{Outcome: o}, err
	case taskv1.State_STATE_FAILED:
		return &taskv1.Failed{Outcome: bounded(s.Outcome)}, nil
	case taskv1.State_STATE_UNDONE:
		return &taskv1.Undone{Outcome: bounded(s.Outcome)}, nil
	}
	return nil, fault.New(fault.Invalid,
		"a server cannot report a task as %v (want running, succeeded, failed or undone)", s.State)
}

// bounded returns a copy of an outcome that is cut to the sizes above. Of the log the end is kept:
// it says what went wrong.
func bounded(o *taskv1.Outcome) *taskv1.Outcome {
	if o == nil {
		return &taskv1.Outcome{}
	}
	out := &taskv1.Outcome{
		FailedStep: o.FailedStep,
		Code:       tidy(o.Code, MaxCode),
		Reason:     tidy(o.Reason, MaxReason),
		Steps:      o.Steps,
	}
	if len(out.Steps) > MaxSteps {
		out.Steps = out.Steps[:MaxSteps]
	}
	if l := o.Listed; l != nil && len(l.Sha256) == sha256.Size {
		out.Listed = &taskv1.Listed{Candidates: min(l.Candidates, bounds.More), Sha256: l.Sha256}
	}
	out.Adoption = boundedAdoption(o.Adoption)
	out.LogTail = o.LogTail
	if len(out.LogTail) > MaxLogTail {
		out.LogTail = out.LogTail[len(out.LogTail)-MaxLogTail:]
	}
	out.LogTail = strings.ToValidUTF8(out.LogTail, "")
	return out
}

// shown returns what a report shows of the agent of a task that succeeded, or nil.
func shown(t *taskv1.Task, r *reportv1.Report) (*taskv1.Shown, error) {
	said := r.GetTask().GetOutcome().GetShown()
	if said == nil || t.GetTo() == nil {
		return nil, nil
	}
	out := proto.CloneOf(said)
	out.Report, out.At = r.Sequence, r.At
	return out, bounds.Shown(out)
}

// MaxSockets is how many sockets of an adopted process are recorded.
const MaxSockets = 16

func boundedAdoption(a *serverv1.Adoption) *serverv1.Adoption {
	if a == nil || len(a.ExeSha256) != sha256.Size {
		return nil
	}
	out := &serverv1.Adoption{
		Candidate: tidy(a.Candidate, bounds.Text), Pid: a.Pid, StartedAt: a.StartedAt, Exe: tidy(a.Exe, bounds.Text),
		ExeSha256: a.ExeSha256, Same: a.Same, At: a.At,
	}
	for _, s := range a.Sockets[:min(len(a.Sockets), MaxSockets)] {
		out.Sockets = append(out.Sockets, tidy(s, bounds.Text))
	}
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

// Reason returns a person's reason as a fact keeps it: valid UTF-8 of a bounded size.
func Reason(s string) string { return tidy(strings.ToValidUTF8(s, ""), MaxReason) }

// Deferrable is what a decision needs to know beside a task that its server may defer.
type Deferrable struct {
	Now      time.Time     // by the clock of the bus
	Busy     time.Duration // how long a change on its server waits at most
	UnderWay time.Duration // how long the task may be under way

	Unwanted *taskv1.Cancelled // how it ends when its server gave it up; nil while it is wanted
}

// givenUp returns the fact that a server gave up a change that it deferred. Only one that is no longer wanted ends
// so, whatever the server reports. The view may not know yet that it is not.
func givenUp(t *taskv1.Task, outcome *taskv1.Outcome, of Deferrable) (proto.Message, error) {
	switch {
	case of.Unwanted != nil:
		return of.Unwanted, nil
	case task.Waits(t):
		return nil, fault.New(fault.NotFound, "server gave up task %s, which is wanted", t.Id)
	}
	return &taskv1.Undone{Outcome: bounded(outcome)}, nil
}

// deferral returns the facts of a report that a change waits or goes on. A task waits once: a server must not keep one
// from ending, nor fill the ledger.
func deferral(t *taskv1.Task, r *reportv1.Report, of Deferrable) (facts []proto.Message) {
	d := r.GetTask().Deferral
	if t.State == taskv1.State_STATE_ASSIGNED {
		facts = append(facts, started(r.BootId))
	}
	switch {
	case d.ResumedAt == nil && t.Deferral == nil:
		wait := d.GetUntil().AsTime().Sub(r.GetAt().AsTime()) // both by the server's clock
		until := of.Now.Add(min(max(wait, 0), of.Busy))
		facts = append(facts, &taskv1.Deferred{
			Deferral: &taskv1.Deferral{
				Code: tidy(d.Code, MaxCode), Reason: tidy(d.Reason, MaxReason), Until: timestamppb.New(until),
			},
			Deadline: timestamppb.New(until.Add(of.UnderWay)),
		})
	case d.ResumedAt != nil && task.Waits(t):
		facts = append(facts, &taskv1.Resumed{
			Overrun: d.Overrun, Deadline: timestamppb.New(of.Now.Add(of.UnderWay)),
		})
	}
	return facts
}
