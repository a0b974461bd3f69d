package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/healing"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// proveEvery is how often an agent is probed that was restarted, until it answers.
const proveEvery = time.Second

// proveSoon has agents probed soon that were restarted and are not shown as good yet.
func (e *Engine) proveSoon() error {
	if e.proving != nil {
		return nil
	}
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(in.Instances, e.rooms.observe.ProvenSoon) {
		e.proving = time.After(min(proveEvery, e.cfg.CheckEvery))
	}
	return nil
}

// checkHealth begins to probe every agent that runs, unless the check before still goes on. A
// slow probe keeps nothing else waiting. counts reports whether it is one of the regular checks, whose failures count.
func (e *Engine) checkHealth(ctx context.Context, counts bool) {
	if e.checking {
		return
	}
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("health not checked")
		return
	}
	probes, installed := map[string]observe.Probe{}, map[string]bool{}
	for _, i := range in.Instances {
		installed[i.Agent] = true
		if !i.Image.IsDaemon() || e.busy[i.Agent] {
			continue
		}
		v := agent.Installed(i)
		p := observe.Probe{Slow: v.ReadyWithin()}
		if p.Spec, err = e.rooms.processes.Probe(v, nil); err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("health not checked")
			continue
		}
		if u := e.rooms.processes.Known(i.Agent, i.Image.GetId()); u != nil {
			if s := u.Status(); s.Pid > 0 && !proctree.Stopped(s.Pid) { // a stopped process does not count as hung
				p.Pid, p.StartedAt = s.Pid, s.StartedAt
			}
		}
		probes[i.Agent] = p
	}
	e.rooms.health.Keep(installed)
	e.checking = true
	e.running.Go(func() {
		e.rooms.health.Probe(ctx, probes, counts)
		select {
		case e.checked <- struct{}{}:
		case <-ctx.Done():
		}
	})
}

// restartHung restarts the processes of agents whose probes failed often enough in a row.
func (e *Engine) restartHung() error {
	if e.cfg.Trial || e.dead() || !e.rooms.health.Failing() {
		return nil
	}
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		return err
	}
	for _, i := range in.Instances {
		f := e.rooms.health.Failures(i.Agent)
		u := e.rooms.processes.Known(i.Agent, i.Image.GetId())
		if u == nil || e.busy[i.Agent] || !f.Due(agent.Installed(i).RestartAfter()) || u.Status().Pid != f.Pid {
			continue
		}
		e.rooms.health.ForgetFailures(i.Agent)
		if guest, ok := u.(supervise.Guest); ok && guest.IsGuest() {
			continue
		}
		why := strings.TrimPrefix(e.rooms.health.Why(i.Agent), "its probe fails: ")
		why = secret.Scrub(fmt.Sprintf("its probe failed %d times in a row: %s", f.InARow, why), i.Secrets)
		e.cfg.Log.Warn().Str(logs.Agent, i.Agent).Int("pid", f.Pid).Str(logs.Reason, why).
			Msg("agent restarted: its health check fails")
		u.Fail(why, f.Since)
	}
	return nil
}

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

// The content of installed images is read all the time, slowly: a change that keeps a file's name, mode, size and time
// shows nowhere else. A round reads each image once. It aims at contentEvery, is never faster than quickContent to
// get there, and takes no longer than contentWithin unless it would have to read faster than fastContent.
const (
	contentEvery  = 45 * time.Second
	contentWithin = 30 * time.Minute
	quickContent  = 4 << 20  // bytes a second
	fastContent   = 64 << 20 // bytes a second
	leastContent  = 1 << 20  // bytes a second
)

// contentPace returns how many bytes a second a round reads of so many bytes.
func contentPace(total int64, every time.Duration) int64 {
	quick := min(total/max(1, int64(every/time.Second)), quickContent)
	whole := min(total/int64(contentWithin/time.Second), fastContent)
	return max(quick, whole, leastContent)
}

// readContent reads the content of installed images, round after round, until ctx is done.
func (e *Engine) readContent(ctx context.Context) {
	every := e.cfg.ContentEvery
	for {
		began := time.Now()
		e.readRound(ctx, every)
		if wakeup.Pause(ctx, max(every-time.Since(began), every/10)) != nil {
			return
		}
	}
}

// readRound reads each installed image once.
func (e *Engine) readRound(ctx context.Context, every time.Duration) {
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("content of images not read")
		return
	}
	agents, total := map[string]string{}, int64(0)
	for _, i := range in.Instances {
		if digest := string(i.Image.Digest()); digest != "" && agents[digest] == "" {
			agents[digest] = i.Agent
			total += e.rooms.images.SizeOf(i.Image.Digest())
		}
	}
	pace := rate.NewLimiter(rate.Limit(contentPace(total, every)), fastContent)
	pace.AllowN(time.Now(), fastContent) // begin without a burst
	for digest, agent := range agents {
		changed, err := e.rooms.images.CheckContent(ctx, []byte(digest), pace.WaitN)
		if err != nil {
			return // ctx is done
		}
		if changed {
			e.cfg.Log.Warn().Str(logs.Agent, agent).Msg("content of an installed image changed")
			e.changed.Wake()
		}
	}
}
