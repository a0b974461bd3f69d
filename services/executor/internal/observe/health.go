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
	fails map[string]Failures  // of an agent's process
}

// NewHealth returns a memory in which no probe has failed.
func NewHealth() *Health {
	return &Health{
		sick: map[string]string{}, ended: map[string]time.Time{}, good: map[string]time.Time{},
		fails: map[string]Failures{},
	}
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
	delete(h.fails, agent)
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

// Probe is a probe of an agent's process.
type Probe struct {
	healthcheck.Spec
	Pid       int // 0: failures do not count
	StartedAt time.Time
	Slow      time.Duration // how long the process may take after its start until it answers
}

// Probe probes agents at the same time and notes the results. The result of an agent is
// ignored when one of its changes ended meanwhile: it is about another version. counts reports whether failures count.
func (h *Health) Probe(ctx context.Context, probes map[string]Probe, counts bool) {
	began := time.Now()
	failed := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for agent, p := range probes {
		all.Go(func() {
			if err := p.Once(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				failed[agent] = err
				mu.Unlock()
			}
		})
	}
	all.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for agent, p := range probes {
		if ctx.Err() != nil || h.ended[agent].After(began) {
			continue // a change decided it meanwhile
		}
		err := failed[agent]
		if delete(h.sick, agent); err != nil {
			h.sick[agent] = "its probe fails: " + change.OneLine(err)
		} else if p.Polled() {
			h.good[agent] = began
		}
		if counts || err == nil {
			h.count(agent, p, began, err)
		}
	}
}
