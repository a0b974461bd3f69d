package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// reading is what the machine was when the reading began.
type reading struct {
	info  *serverv1.Sysinfo
	at    time.Time
	asked []string // the tasks of requests that wait for this reading
	err   error    // why kept versions were not deleted before it
}

// machine reads what the machine is, beside the loop: a disk that hangs keeps nothing waiting.
// Its methods are called by the loop's goroutine.
type machine struct {
	read    func(context.Context) *serverv1.Sysinfo
	purge   func() error  // deletes the versions that are kept for a way back
	boot    string        // the boot's id
	rest    time.Duration // after a reported change, before the next one is reported
	tasks   tasks
	spawn   func(func())
	results chan reading

	busy      bool
	last      *serverv1.Sysinfo // as it was last reported
	changedAt time.Time         // when a change that no task asked for was last reported
}

// look begins a reading, unless one is under way: a burst of reasons is one reading.
func (m *machine) look(ctx context.Context) { m.begin(ctx, nil, nil) }

// begin begins a reading for the tasks of a document's requests, unless one is under way. Kept versions are deleted
// before it when one of them asks for that.
func (m *machine) begin(ctx context.Context, d *desiredv1.Document, asked []string) {
	if m.busy {
		return
	}
	m.busy = true
	purges := len(purging(d, asked)) > 0
	m.spawn(func() {
		var err error
		if purges {
			err = m.purge()
		}
		at := time.Now()
		r := reading{m.read(ctx), at, asked, err}
		select {
		case m.results <- r:
		case <-ctx.Done():
		}
	})
}

// lookFor begins a reading for the requests of a document that were not answered yet.
func (m *machine) lookFor(ctx context.Context, d *desiredv1.Document) error {
	due, err := m.tasks.unanswered(d)
	if err == nil && len(due) > 0 {
		m.begin(ctx, d, due)
	}
	return err
}

// answer reports a reading. It completes every request that came before the reading began, in
// the name of the last one; later requests begin another reading.
func (m *machine) answer(ctx context.Context, d *desiredv1.Document, r reading) error {
	m.busy = false
	waiting, err := m.tasks.unanswered(d)
	if err != nil {
		return err
	}
	due, since := split(waiting, r.asked)
	if len(since) > 0 {
		m.begin(ctx, d, since)
	}
	if len(due) == 0 {
		return m.report(r, "")
	}
	last := due[len(due)-1]
	if err := errors.Join(m.report(r, last), m.tasks.reports.sayAgents(last, true)); err != nil {
		return err
	}
	if r.err != nil {
		failed := purging(d, due)
		_, due = split(due, failed)
		if err := m.tasks.fail(failed, steps.Failure(taskv1.Step_STEP_SWEEP, r.err)); err != nil {
			return err
		}
	}
	return m.tasks.succeed(due)
}

// purging returns those of the tasks whose requests ask for the deletion of kept versions.
func purging(d *desiredv1.Document, tasks []string) (out []string) {
	for _, q := range d.GetRequests() {
		if q.GetPurgeKept() && slices.Contains(tasks, q.GetTaskId()) {
			out = append(out, q.GetTaskId())
		}
	}
	return out
}

// report reports a reading if it differs from the last report, and always at the start and for
// a task.
func (m *machine) report(r reading, taskID string) error {
	always := m.last == nil || taskID != ""
	if m.last.GetBootedAt() != nil && r.info.GetBootedAt() != nil {
		r.info.BootedAt = m.last.GetBootedAt() // this process did not outlive a boot
	}
	if !always && (proto.Equal(r.info, m.last) || r.at.Sub(m.changedAt) < m.rest) {
		return nil
	}
	reports := m.tasks.reports
	return reports.journal.Update(func(tx *journal.Tx) error {
		if err := m.steadyBoot(tx, r.info); err != nil {
			return err
		}
		if m.last = r.info; !always {
			m.changedAt = r.at
		}
		out := reports.report()
		out.Body = &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: r.info, TaskId: taskID}}
		return tx.Say(out)
	})
}

// steadyBoot keeps the first start time that was seen in a boot: the kernel computes it from a
// clock that is corrected, so it moves by a second now and then.
func (m *machine) steadyBoot(tx *journal.Tx, s *serverv1.Sysinfo) error {
	const name = "booted-at"
	if s.GetBootedAt() == nil {
		return nil
	}
	prefix := m.boot + " "
	if was, ok := strings.CutPrefix(tx.Note(name), prefix); ok {
		if at, err := time.Parse(time.RFC3339, was); err == nil {
			s.BootedAt = timestamppb.New(at)
			return nil
		}
	}
	return tx.SetNote(name, prefix+s.GetBootedAt().AsTime().Format(time.RFC3339))
}
