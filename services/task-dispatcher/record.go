package dispatcher

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const (
	// maxSingles is how many facts are recorded one by one: each costs about 0.3 ms, an atomic batch
	// about 15 ms.
	maxSingles = 32
	// unitSize is how many facts of a larger number are recorded as one unit. The writer puts the
	// units that wait into one batch.
	unitSize = 100
	// maxUnits bounds how many units wait for the writer.
	maxUnits = 64
)

// recorder records many facts that do not depend on each other.
type recorder struct {
	writer   *bus.Writer
	follower *fold.Follower
}

// record records drafts, many at once, and waits until the view holds them. A fact whose guard does
// not hold is left out; after all others were tried, the error is then a Conflict.
func (r *recorder) record(ctx context.Context, drafts []ledger.Draft) error {
	size := unitSize
	if len(drafts) <= maxSingles {
		size = 1
	}
	last, err := r.recordUnits(ctx, drafts, size)
	if last > 0 {
		if e := r.follower.Wait(ctx, last); e != nil {
			return e
		}
	}
	return err
}

func (r *recorder) recordUnits(ctx context.Context, drafts []ledger.Draft, size int) (uint64, error) {
	var last atomic.Uint64
	var conflict atomic.Pointer[error]
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxUnits)
	for start := 0; start < len(drafts); start += size {
		unit := drafts[start:min(start+size, len(drafts))]
		g.Go(func() error {
			sequence, err := r.recordUnit(ctx, unit)
			raise(&last, sequence)
			if fault.Is(err, fault.Conflict) {
				conflict.Store(&err)
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return last.Load(), err
	}
	if err := conflict.Load(); err != nil {
		return last.Load(), *err
	}
	return last.Load(), nil
}

// recordUnit records a unit. When one of its guards does not hold, it records the facts one by one,
// so that a fact that can never be recorded does not hold up others. A lost claim is lost for the
// whole unit.
func (r *recorder) recordUnit(ctx context.Context, unit []ledger.Draft) (last uint64, err error) {
	last, err = r.writer.Append(ctx, unit...)
	if len(unit) == 1 || !fault.Is(err, fault.Conflict) || unit[0].Guard.Subject == claimSubject {
		return last, err
	}
	conflict := err
	for _, draft := range unit {
		sequence, err := r.writer.Append(ctx, draft)
		if err != nil && !fault.Is(err, fault.Conflict) {
			return last, err
		}
		last = max(last, sequence)
	}
	return last, conflict
}

// raise sets to to v unless it is higher.
func raise(to *atomic.Uint64, v uint64) {
	for {
		have := to.Load()
		if v <= have || to.CompareAndSwap(have, v) {
			return
		}
	}
}
