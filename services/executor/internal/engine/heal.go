package engine

import (
	"time"

	"golang.org/x/sys/unix"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/healing"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// What something else than a task changed of an installed agent is restored without a task when the environment's
// policy is to heal: a file, a link, a configuration, a process that a signal stopped. A process that ended is
// restarted under each policy, and a task may repair at any time. The last policy holds until another document is
// taken, also across restarts and without the bus.

// noteDrift is where the journal keeps that nothing may be healed.
const noteDrift = "drift-not-healed"

// setPolicy takes the policy of a document, and keeps it.
func (e *Engine) setPolicy(tx *journal.Tx, d *desiredv1.Document) error {
	allowed, note := healing.Allowed(d), ""
	if !allowed {
		note = "yes"
	}
	if e.rooms.repairs.Allow(allowed) == allowed && tx.Note(noteDrift) == note {
		return nil
	}
	e.cfg.Log.Info().Str("policy", d.GetDrift().String()).Bool("braked", d.GetDriftBraked()).Msg("drift policy changed")
	return tx.SetNote(noteDrift, note)
}

// recallPolicy takes the policy of the last document before this start.
func (e *Engine) recallPolicy() error {
	forbidden, err := e.cfg.Journal.Note(noteDrift)
	e.rooms.repairs.Allow(forbidden == "")
	return err
}

// healDue notes whether something is damaged now, and reports whether it is to be healed now.
func (e *Engine) healDue(what string, damaged bool) bool {
	left, began := e.damage.Note(what, damaged, time.Now())
	if began {
		time.AfterFunc(left, e.changed.Wake)
	}
	return left == 0 && e.rooms.repairs.Allowed()
}

// continueStopped continues the processes of agents that a signal stopped.
func (e *Engine) continueStopped() error {
	if e.cfg.Trial {
		return nil
	}
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		return err
	}
	for _, i := range in.Instances {
		u := e.rooms.processes.Known(i.Agent, i.Image.GetId())
		if u == nil || e.busy[i.Agent] {
			continue
		}
		pid := u.Status().Pid
		if !e.healDue("process of "+i.Agent, pid > 0 && proctree.Stopped(pid)) {
			continue
		}
		e.cfg.Log.Warn().Str(logs.Agent, i.Agent).Int("pid", pid).Msg("stopped process continued")
		for _, c := range append(proctree.Descendants(pid), proctree.Child{Pid: pid}) {
			if proctree.Stopped(c.Pid) {
				_ = unix.Kill(c.Pid, unix.SIGCONT) // a process that ended meanwhile is restarted
			}
		}
		time.AfterFunc(time.Second, e.changed.Wake) // it is reported again
	}
	return nil
}
