package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// lookAtSections is how often the end of critical sections is looked for, and lookForPlace a free place.
const (
	lookAtSections = time.Second
	lookForPlace   = 50 * time.Millisecond
)

// Defer waits until no critical section lasts on the server. From then on none begins until the change has ended. A
// change waits once, and no longer than the limit since its first wait, also where the executor was restarted. One that
// is no longer wanted, or that touches nothing, does not wait.
type Defer struct {
	Sections busy.Sections
	Limit    func() time.Duration // how long a change waits at most; 0 when it waits for nothing
	// Report writes the report that a task waits, or goes on.
	Report func(tx *journal.Tx, r *Run, d *taskv1.Deferral) error
	Places Places
	// Unwanted reports whether a task is no longer wanted.
	Unwanted func(task string) bool
	// Touches reports whether the change may touch the agent; one that does not waits for nothing.
	Touches func(*Run) bool
}

// Places are those of the changes that run at once, one for each agent. A change that is deferred leaves its own.
type Places interface {
	Take(agent string) bool // reports false when none is free
	Leave(agent string)
}

// Do implements Step.
func (s Defer) Do(ctx context.Context, r *Run) error {
	since, over, err := s.first(r)
	if err != nil {
		return err
	}
	again := !since.IsZero()
	last, err := s.pass(ctx, r, over || s.Limit() == 0)
	switch {
	case err != nil, r.pass != nil && !again:
		return err
	case r.pass != nil:
		return s.goOn(r, since, len(last) > 0)
	case !again && !s.Touches(r):
		return nil
	case !again:
		since = time.Now()
	}
	until := since.Add(s.Limit())
	d := &taskv1.Deferral{Code: code.CriticalSection, Reason: describe(last), Until: timestamppb.New(until)}
	r.Log.Info().Str(logs.Code, d.Code).Str(logs.Reason, d.Reason).Time("until", until).Msg("change deferred")
	if err := s.note(r, since, false, d); err != nil {
		return err
	}
	began := time.Now()
	overrun, err := s.wait(ctx, r, since)
	if err != nil {
		return err
	}
	if !again && !r.Deadline.IsZero() {
		r.Deadline = r.Deadline.Add(time.Since(began))
	}
	if again { // the document's deadline may be one of a wait until the limit
		r.Deadline = time.Time{}
	}
	return s.goOn(r, since, overrun)
}

func givenUp() error {
	return refuse(code.GivenUp, "it is no longer wanted, and nothing was touched")
}

// wait waits until the change may go on and has a place again. It reports whether sections last then.
func (s Defer) wait(ctx context.Context, r *Run, since time.Time) (overrun bool, err error) {
	s.Places.Leave(r.Agent)
	r.Point("deferred")
	next := lookAtSections
	for {
		left := time.Until(since.Add(s.Limit()))
		if err := wakeup.Pause(ctx, max(0, min(left, next))); err != nil {
			return false, err
		}
		if s.Unwanted(r.TaskID) {
			return false, givenUp()
		}
		over := left <= lookAtSections
		last, err := s.Sections.List(time.Now())
		if err != nil {
			return false, err
		}
		if next = lookAtSections; len(last) > 0 && !over {
			continue
		}
		if !s.Places.Take(r.Agent) {
			next = lookForPlace
			continue
		}
		if last, err = s.pass(ctx, r, over); err != nil || r.pass != nil {
			return len(last) > 0, err
		}
		s.Places.Leave(r.Agent)
	}
}

// goOn keeps and reports that the change goes on after it waited.
func (s Defer) goOn(r *Run, since time.Time, overrun bool) error {
	r.Log.Info().Bool("overrun", overrun).Dur(logs.Took, time.Since(since)).Msg("deferred change goes on")
	return s.note(r, since, true, &taskv1.Deferral{
		Code: code.CriticalSection, ResumedAt: timestamppb.Now(), Overrun: overrun,
	})
}

// pass lets the change go on unless sections last, which are returned; none when one is about to begin.
func (s Defer) pass(ctx context.Context, r *Run, overrun bool) ([]busy.Section, error) {
	pass, last, err := s.Sections.Pass(ctx, overrun)
	if pass != nil {
		r.pass = pass
	}
	return last, err
}

// noteDeferred begins the name under which the journal keeps since when an agent's change waits.
const noteDeferred = "deferred/"

// first returns since when the change waits, zero for one that did not wait yet, and whether it went on already. It
// refuses one that waited or crashed, is no longer wanted and did not go on.
func (s Defer) first(r *Run) (since time.Time, over bool, err error) {
	err = r.Journal.Read(func(tx *journal.Tx) error {
		id, at, _ := strings.Cut(tx.Note(noteDeferred+r.Agent), " ")
		if id != r.ID {
			return nil
		}
		if over = at == ""; !over {
			since, _ = time.Parse(time.RFC3339Nano, at) // zero: it waits anew
			if now := time.Now(); since.After(now) {    // the clock was set back
				since = now
			}
		}
		return nil
	})
	stood := !since.IsZero() || r.Interruptions.Crashes > 0 // one that was not held up is completed
	if err == nil && !over && stood && s.Unwanted(r.TaskID) {
		return since, over, givenUp()
	}
	return since, over, inJournal(err)
}

// note keeps that the change waits, or went on, and reports it.
func (s Defer) note(r *Run, since time.Time, over bool, d *taskv1.Deferral) error {
	text := r.ID
	if !over {
		text += " " + since.Format(time.RFC3339Nano)
	}
	return inJournal(r.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.SetNote(noteDeferred+r.Agent, text), s.Report(tx, r, d))
	}))
}

// Undisturbed keeps critical sections from beginning until the change has ended, also when it goes on during one:
// something may be touched already.
func (r *Run) Undisturbed(ctx context.Context, of busy.Sections) error {
	pass, _, err := of.Pass(ctx, true)
	if pass != nil {
		r.pass = pass
	}
	return err
}

// describe names the sections for which a change waits.
func describe(last []busy.Section) string {
	if len(last) == 0 {
		return "a critical section is about to begin"
	}
	text := last[0].String()
	if n := len(last) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// ForgetDeferral forgets that a change of an agent waited: it has ended.
func ForgetDeferral(tx *journal.Tx, agent string) error { return tx.SetNote(noteDeferred+agent, "") }
