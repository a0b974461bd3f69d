package rolling

import (
	"time"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/window"
)

// Cost is what a plan moves, and what keeps it from beginning everywhere at once.
type Cost struct {
	Bytes   uint64    // of images that the servers fetch, at most
	Closed  int       // how many servers cannot be changed now
	Primed  int       // how many of those fetch ahead meanwhile
	Because string    // why the first of them cannot
	Until   time.Time // when the last of them may be changed; zero when one never may
}

// CostOf returns what a plan costs.
func CostOf(r Reader, p Planned, now time.Time) (c Cost) {
	doors, never := map[string]window.State{}, false
	for _, t := range p.Targets {
		for _, change := range t.Changes {
			if i, ok := r.Image(change.To.GetId()); ok && !image.Same(change.From, change.To) {
				c.Bytes += i.Manifest.GetBlob().GetSizeBytes()
			}
		}
		s, _ := r.Server(t.ServerId)
		state, known := doors[s.GetEnvironment()]
		if !known {
			e, _ := r.Environment(s.GetEnvironment())
			state = window.At(e, now)
			doors[s.GetEnvironment()] = state
		}
		if state.Open || p.Strategy.GetEmergency() || p.Strategy.GetOverride() {
			continue
		}
		if c.Closed++; c.Because == "" {
			c.Because = state.Why
		}
		if e, _ := r.Environment(s.GetEnvironment()); window.FetchesAhead(e) && len(rollout.Brings(t)) > 0 {
			c.Primed++
		}
		if never = never || state.Until.IsZero(); state.Until.After(c.Until) {
			c.Until = state.Until
		}
	}
	if never {
		c.Until = time.Time{}
	}
	return c
}
