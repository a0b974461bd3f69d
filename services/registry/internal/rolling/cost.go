package rolling

import (
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Cost is what a plan moves, and what keeps it from beginning everywhere at once.
type Cost struct {
	Bytes   uint64    // of images that the servers fetch, at most
	Closed  int       // how many servers cannot be changed when it begins
	Primed  int       // how many of those fetch ahead meanwhile
	Because string    // why the first of them cannot
	Until   time.Time // when the last of them may be changed; zero when one never may
}

// CostOf returns what a plan costs that begins at a time.
func CostOf(r Reader, p Planned, at time.Time) (c Cost) {
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
			state = window.At(e, at)
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

// UnusedBytes returns how much a server fetched ahead of changes that were not made, at most; 0 when it fetched
// nothing, or the changes were made.
func UnusedBytes(r Reader, t *rolloutv1.Target) (bytes uint64) {
	if t.AheadAt == nil || t.AheadLeft > 0 || t.AheadReason != nil || rollout.Touched(t) {
		return 0
	}
	for _, ref := range rollout.Brings(t) {
		if i, ok := r.Image(ref.GetId()); ok {
			bytes += i.Manifest.GetBlob().GetSizeBytes()
		}
	}
	return bytes
}
