package registry

import (
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
)

// pass lets time pass in which registries run: a mere jump of the clock would mean that they stood still.
func (s *site) pass(d time.Duration, registries ...*Registry) {
	for end := s.skew.Load() + int64(d); s.skew.Load() < end; {
		step := func() { s.skew.Add(min(int64(s.beats), end-s.skew.Load())) }
		for _, r := range registries {
			then := step
			step = func() { r.presence.SetClock(then) }
		}
		step()
	}
}

// firstBeat beats until the registry receives it, which it may not do yet when it answers.
func (s *site) firstBeat(id, boot string) {
	s.t.Helper()
	bustest.Eventually(s.t, "its beat arrives", func() bool { s.beat(id, boot); return s.r.hasBeat(id) })
}

// sweeps waits until the registry looked at all servers so often, each time from the beginning.
func (s *site) sweeps(times int) {
	s.t.Helper()
	end := s.r.presence.Sweeps() + times + 1 // one may be under way
	bustest.Eventually(s.t, "all servers are looked at", func() bool { return s.r.presence.Sweeps() >= end })
}

// hasBeat reports whether a registry received a beat of a server.
func (r *Registry) hasBeat(id string) bool {
	return r.presence.Received(id)
}
