package observe

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
)

// Health remembers what the probes of each agent found, and when its last change ended. It is safe for concurrent use.
type Health struct {
	mu     sync.Mutex
	agents map[string]*probed
}

// probed is what is known of an agent.
type probed struct {
	sick     string    // why its probe fails, or empty
	ended    time.Time // its last change
	good     time.Time // when the last probe began that it answered
	failures Failures  // of its process
}

// NewHealth returns a memory in which no probe has failed.
func NewHealth() *Health { return &Health{agents: map[string]*probed{}} }

// of returns what is known of an agent. The caller holds mu.
func (h *Health) of(agent string) *probed {
	p := h.agents[agent]
	if p == nil {
		p = &probed{}
		h.agents[agent] = p
	}
	return p
}

// known returns a copy of what is known of an agent.
func (h *Health) known(agent string) probed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.agents[agent]; p != nil {
		return *p
	}
	return probed{}
}

// Why returns why an agent's probe fails, or "".
func (h *Health) Why(agent string) string { return h.known(agent).sick }

// EndedSince reports whether a change of an agent ended after a time.
func (h *Health) EndedSince(agent string, at time.Time) bool { return h.known(agent).ended.After(at) }

// GoodSince reports whether an agent answered a probe that began after a time.
func (h *Health) GoodSince(agent string, at time.Time) bool { return h.known(agent).good.After(at) }

// Failures returns the failed probes of an agent's process.
func (h *Health) Failures(agent string) Failures { return h.known(agent).failures }

// ForgetFailures begins to count an agent's failures anew.
func (h *Health) ForgetFailures(agent string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of(agent).failures = Failures{}
}

// Ended notes that a change of an agent ended, and why what runs now is unhealthy, or "".
func (h *Health) Ended(agent, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.of(agent)
	p.sick, p.ended, p.failures = why, time.Now(), Failures{}
}

// Failing reports whether the last probe of any agent failed.
func (h *Health) Failing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.agents {
		if p.sick != "" {
			return true
		}
	}
	return false
}

// Keep forgets every agent but these.
func (h *Health) Keep(agents map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for agent := range h.agents {
		if !agents[agent] {
			delete(h.agents, agent)
		}
	}
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
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for agent, p := range probes {
		of, err := h.of(agent), failed[agent]
		if of.ended.After(began) {
			continue // a change decided it meanwhile
		}
		if of.sick = ""; err != nil {
			of.sick = "its probe fails: " + change.OneLine(err)
		} else if p.Polled() {
			of.good = began
		}
		if counts || err == nil {
			of.count(p, began, err)
		}
	}
}

// Failures are the failed probes of a process in a row.
type Failures struct {
	Pid    int
	InARow int
	Silent int // of the last of them, how many in a row got no answer
	Since  time.Time
}

// silentProbes is how many probes in a row may get no answer, where an image does not say more: a minute of them.
const silentProbes = 4

// Due reports whether the process is to be restarted, with the value of run.ready.restart_after.
func (f Failures) Due(after *uint32) bool {
	if after == nil {
		return f.Silent >= silentProbes
	}
	return *after > 0 && f.InARow >= int(*after)
}

// count counts the result of a probe that began at a time. A process that never answered since its start has the time
// of its first health check before its failures count.
func (a *probed) count(p Probe, began time.Time, err error) {
	f := a.failures
	if err == nil || f.Pid != p.Pid {
		f = Failures{Pid: p.Pid}
	}
	if err != nil && p.Pid != 0 && (a.good.After(p.StartedAt) || began.Sub(p.StartedAt) > p.Slow) {
		if f.InARow++; f.InARow == 1 {
			f.Since = began
		}
		if f.Silent++; !healthcheck.Silent(err) {
			f.Silent = 0
		}
	}
	a.failures = f
}
