package facts

import (
	"fmt"
	"sync"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// ReadsAtOnce is how many reads are under way at a time, of all actors.
	ReadsAtOnce = 8
	// ReadsPerActor is how many reads of one actor are under way at a time.
	ReadsPerActor = 2
	// BytesPerSecond is how much an actor reads for longer than a moment.
	BytesPerSecond = 16 << 20

	// burst is how much an actor reads at full speed after a pause.
	burst = 32 << 20
	// busyFor is when a read may be repeated that came while others were under way.
	busyFor = 100 * time.Millisecond
	// mostActors bounds how many actors are remembered; actors without a debt are forgotten first.
	mostActors = 4096
)

// gate bounds the reads of each actor. An actor owes what it has read, and the debt melts at BytesPerSecond.
type gate struct {
	now func() time.Time

	mu      sync.Mutex
	reading int
	actors  map[string]*account
}

// account is what one actor reads.
type account struct {
	reading int
	debt    float64 // bytes
	at      time.Time
}

func newGate(now func() time.Time) *gate { return &gate{now: now, actors: map[string]*account{}} }

// enter admits a read, or refuses it with BUSY. The caller calls leave with how many bytes it read.
func (g *gate) enter(actor string) (leave func(size int), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account(actor)
	a.melt(g.now())
	switch {
	case a.reading >= ReadsPerActor:
		return nil, busy(busyFor, "%d reads of %s are under way, which is the most for one actor", a.reading, actor)
	case a.debt > burst:
		wait := time.Duration((a.debt - burst) / BytesPerSecond * float64(time.Second))
		return nil, busy(max(wait, busyFor), "%s has read more than %d MiB a second", actor, BytesPerSecond>>20)
	case g.reading >= ReadsAtOnce:
		return nil, busy(busyFor, "%d reads are under way, which is the most", g.reading)
	}
	a.reading, g.reading = a.reading+1, g.reading+1
	return func(size int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		a.reading, g.reading = a.reading-1, g.reading-1
		a.debt += float64(size)
	}, nil
}

// account returns the account of an actor. It forgets those that owe nothing when there are many.
func (g *gate) account(actor string) *account {
	if a := g.actors[actor]; a != nil {
		return a
	}
	if len(g.actors) >= mostActors {
		for name, a := range g.actors {
			if a.melt(g.now()); a.debt == 0 && a.reading == 0 {
				delete(g.actors, name)
			}
		}
	}
	a := &account{at: g.now()}
	g.actors[actor] = a
	return a
}

// melt reduces the debt by what may have been read since the last time.
func (a *account) melt(now time.Time) {
	a.debt = max(0, a.debt-now.Sub(a.at).Seconds()*BytesPerSecond)
	a.at = now
}

func busy(after time.Duration, format string, args ...any) error {
	return fault.Refuse(fault.Unavailable, &apiv1.Refusal{
		Code: code.Busy, Message: fmt.Sprintf(format, args...), Try: "the same command again",
		RetryAfterMs: uint32(after.Milliseconds()),
	})
}
