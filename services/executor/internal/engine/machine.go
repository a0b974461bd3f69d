package engine

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

const (
	// lookEvery is how often it is looked whether the machine was changed.
	lookEvery = time.Minute
	// lookRest is how long after a change that nobody asked for the next one is not said:
	// an address that comes and goes must not fill the ledger.
	lookRest = 10 * time.Minute
)

// machine is what the machine is, at the time when it was begun to look.
type machine struct {
	info  *serverv1.Sysinfo
	at    time.Time
	asked []string // the tasks of requests that wait for this look
}

// lookAtMachine reads what the machine is beside the loop: a disk that hangs keeps nothing
// waiting. While a reading goes on no second one begins, so a burst of reasons is one; who
// asks meanwhile is heard when it has ended.
func (e *Engine) lookAtMachine(ctx context.Context, asked ...string) {
	if e.reading {
		return
	}
	e.reading = true
	e.changes.Go(func() {
		at := time.Now()
		m := machine{e.cfg.Sysinfo(ctx), at, asked}
		select {
		case e.machines <- m:
		case <-ctx.Done():
		}
	})
}

// saySysinfo reports what the machine is if that differs from what was last said. It always
// does at the start, whatever was said before, and for a task.
func (e *Engine) saySysinfo(m machine, taskID string) error {
	always := e.sysinfo == nil || taskID != ""
	if e.sysinfo.GetBootedAt() != nil && m.info.GetBootedAt() != nil {
		m.info.BootedAt = e.sysinfo.GetBootedAt() // we have not outlived a boot
	}
	if !always && (proto.Equal(m.info, e.sysinfo) || m.at.Sub(e.changedAt) < e.cfg.LookRest) {
		return nil
	}
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		if err := e.steadyBoot(tx, m.info); err != nil {
			return err
		}
		if e.sysinfo = m.info; !always {
			e.changedAt = m.at
		}
		r := e.report()
		r.Body = &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: m.info, TaskId: taskID}}
		return tx.Say(r)
	})
}

// steadyBoot keeps the first start time that was seen in a boot: the kernel computes it
// from a clock that is corrected, so it moves by a second now and then.
func (e *Engine) steadyBoot(tx *journal.Tx, s *serverv1.Sysinfo) error {
	const name = "booted-at"
	if s.GetBootedAt() == nil {
		return nil
	}
	prefix := e.cfg.BootID + " "
	if was, ok := strings.CutPrefix(tx.Note(name), prefix); ok {
		if at, err := time.Parse(time.RFC3339, was); err == nil {
			s.BootedAt = timestamppb.New(at)
			return nil
		}
	}
	return tx.SetNote(name, prefix+s.GetBootedAt().AsTime().Format(time.RFC3339))
}
