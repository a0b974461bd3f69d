// Package heap sets how much the heap of a service may grow between two collections. The heap of a service is its view,
// which is large and changes slowly, so that the garbage which Go allows by default would double its memory. garrisond,
// which is the bus as well, follows what it allocates instead (deploy/allinone/cmd/garrisond/garbage.go): by that rate
// alone, a replay would collect a view of a gigabyte several times as often as here.
//
// Guarantees:
//
//  1. The garbage of a large heap is a fifth of what is live, that of a small one is as much as is live.
//  2. While a view is replayed the garbage may be as much as is live, whatever its size: nearly all that a replay
//     allocates is garbage at once.
package heap

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// leastGarbage is how many bytes of garbage any heap may have beyond a fifth of what is live.
	leastGarbage = 8 << 20
	// leastPercent and mostPercent bound the growth between two collections.
	leastPercent, mostPercent = 20, 100
	// lookEvery is how often the growth follows the heap.
	lookEvery = 5 * time.Second
)

var (
	replays atomic.Int32             // views that are replayed now
	changed = make(chan struct{}, 1) // wakes Keep
)

// Replay notes that a view is replayed until end is called. It does nothing in a process that does not call Keep.
func Replay() (end func()) {
	replays.Add(1)
	wake()
	return sync.OnceFunc(func() {
		replays.Add(-1)
		wake()
	})
}

func wake() {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// Keep sets the growth of the heap of this process until ctx is done.
func Keep(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		debug.SetGCPercent(percent(live(), replays.Load() > 0))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-look.C:
		}
	}
}

// percent returns how much a heap with so many live bytes may grow.
func percent(live uint64, replaying bool) int {
	if replaying {
		return mostPercent
	}
	return int(min(max(leastGarbage*100/max(live, 1), leastPercent), mostPercent))
}

// live returns how many bytes were live after the last collection.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
