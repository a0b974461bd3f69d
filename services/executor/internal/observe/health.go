package observe

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

// Health is the last result of each agent's probe, and when its last change ended. It is safe
// for concurrent use.
type Health struct {
	mu    sync.Mutex
	sick  map[string]string    // why an agent's probe fails
	ended map[string]time.Time // when an agent's last change ended
	good  map[string]time.Time // when the last probe began that an agent answered
}

// NewHealth returns a memory in which no probe has failed.
func NewHealth() *Health {
	return &Health{sick: map[string]string{}, ended: map[string]time.Time{}, good: map[string]time.Time{}}
}

// Why returns why an agent's probe fails, or "".
func (h *Health) Why(agent string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sick[agent]
}

// Ended notes that a change of an agent ended, and why what runs now is unhealthy, or "".
func (h *Health) Ended(agent, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.sick, agent); why != "" {
		h.sick[agent] = why
	}
	h.ended[agent] = time.Now()
}

// EndedSince reports whether a change of an agent ended after a time.
func (h *Health) EndedSince(agent string, at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended[agent].After(at)
}

// GoodSince reports whether an agent answered a probe that began after a time.
func (h *Health) GoodSince(agent string, at time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.good[agent].After(at)
}

// Probe probes agents at the same time and notes the results. The result of an agent is
// ignored when one of its changes ended meanwhile: it is about another version.
func (h *Health) Probe(ctx context.Context, probes map[string]healthcheck.Spec) {
	began := time.Now()
	sick := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for agent, p := range probes {
		all.Go(func() {
			if err := p.Once(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				sick[agent] = "its probe fails: " + change.OneLine(err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for agent, why := range h.sick {
		if _, probed := probes[agent]; !probed || h.ended[agent].After(began) {
			sick[agent] = why // a change decides it, or decided it meanwhile
		}
	}
	for agent := range sick {
		if _, was := h.sick[agent]; !was && h.ended[agent].After(began) {
			delete(sick, agent)
		}
	}
	h.sick = sick
	for agent, p := range probes {
		if _, is := sick[agent]; !is && p.Polled() && ctx.Err() == nil {
			h.good[agent] = began
		}
	}
}
