// Package load sends a rig work at a constant rate, and counts what came of it: intents, and requests to an agent over
// HTTP.
package load

import (
	"context"
	"slices"
	"sync"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
)

// Every calls do until ctx ends, first after one interval. A call that takes longer delays the next one.
func Every(ctx context.Context, interval time.Duration, do func(n int)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() == nil {
				do(n)
			}
		}
	}
}

// Intents publishes intents with its client, and keeps which of them the bus acknowledged. It is safe for concurrent
// use.
type Intents struct {
	Client *client.Client

	mu   sync.Mutex
	sent int
	acks []Acknowledged
}

// Acknowledged is an intent that the bus acknowledged to its publisher.
type Acknowledged struct {
	ID     string
	At     time.Time
	Waited time.Duration // from the first try
}

// Publish publishes an intent under an id of its own, which it returns, again and again until the bus acknowledges it
// or ctx ends.
func (i *Intents) Publish(ctx context.Context, intent *intentv1.Intent) (id string, acknowledged bool) {
	id, began := client.NewID(), time.Now()
	i.count(func() { i.sent++ })
	for i.Client.Publish(ctx, id, intent) != nil {
		if ctx.Err() != nil {
			return id, false
		}
	}
	i.count(func() { i.acks = append(i.acks, Acknowledged{id, time.Now(), time.Since(began)}) })
	return id, true
}

// Add adds an intent that the bus acknowledged to another publisher.
func (i *Intents) Add(id string) {
	i.count(func() { i.sent, i.acks = i.sent+1, append(i.acks, Acknowledged{ID: id}) })
}

func (i *Intents) count(what func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	what()
}

// Counts returns how many intents were published, and which were acknowledged, in the order of that.
func (i *Intents) Counts() (sent int, acknowledged []Acknowledged) {
	i.count(func() { sent, acknowledged = i.sent, slices.Clone(i.acks) })
	return sent, acknowledged
}

// IDs returns the ids of the intents that were acknowledged.
func (i *Intents) IDs() (ids []string) {
	_, acks := i.Counts()
	for _, a := range acks {
		ids = append(ids, a.ID)
	}
	return ids
}

// Forget forgets all but the first intents that were acknowledged: a restored bus has no others.
func (i *Intents) Forget(behind int) { i.count(func() { i.acks = i.acks[:behind] }) }
