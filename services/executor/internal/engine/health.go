package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
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
