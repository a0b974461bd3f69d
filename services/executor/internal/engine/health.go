package engine

import (
	"context"
	"sync"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
)

// checkHealth begins to probe every agent that runs and can be probed, unless the check
// before still goes on. A slow probe keeps nothing else waiting.
func (e *Engine) checkHealth(ctx context.Context) {
	if e.checking {
		return
	}
	var instances []*journal.Instance
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		instances, err = tx.Instances()
		return err
	})
	if err != nil {
		e.cfg.Log.Error().Err(err).Msg("health not checked")
		return
	}
	probes := map[string]probe.Spec{}
	for _, i := range instances {
		if i.Image.GetKind() != agentv1.Kind_KIND_DAEMON || e.busy[i.Agent] {
			continue
		}
		p, err := e.probeSpec(sideOf(i), nil)
		if err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("health not checked")
			continue
		}
		probes[i.Agent] = p
	}
	e.checking = true
	e.changes.Go(func() {
		e.probeAll(ctx, probes)
		select {
		case e.checked <- struct{}{}:
		case <-ctx.Done():
		}
	})
}

func (e *Engine) probeAll(ctx context.Context, probes map[string]probe.Spec) {
	began := time.Now()
	sick := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for agent, p := range probes {
		all.Go(func() {
			if err := p.Once(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				sick[agent] = "its probe fails: " + oneLine(err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for agent, why := range e.sick {
		if _, probed := probes[agent]; !probed || e.settled[agent].After(began) {
			sick[agent] = why // a change decides on it, or did meanwhile
		}
	}
	for agent := range sick {
		if _, was := e.sick[agent]; !was && e.settled[agent].After(began) {
			delete(sick, agent) // what was probed was another version
		}
	}
	e.sick = sick
}
