package engine

import (
	"context"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
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
// slow probe keeps nothing else waiting.
func (e *Engine) checkHealth(ctx context.Context) {
	if e.checking {
		return
	}
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("health not checked")
		return
	}
	probes := map[string]healthcheck.Spec{}
	for _, i := range in.Instances {
		if !i.Image.IsDaemon() || e.busy[i.Agent] {
			continue
		}
		p, err := e.rooms.processes.Probe(agent.Installed(i), nil)
		if err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("health not checked")
			continue
		}
		probes[i.Agent] = p
	}
	e.checking = true
	e.running.Go(func() {
		e.rooms.health.Probe(ctx, probes)
		select {
		case e.checked <- struct{}{}:
		case <-ctx.Done():
		}
	})
}
