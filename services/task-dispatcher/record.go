package dispatcher

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const (
	// apartUpTo is how many facts are recorded one by one: each costs about 0.3 ms, an atomic batch about 15 ms.
	apartUpTo = 32
	// unitSize is how many facts are recorded as one unit when there are many. The writer
	// puts the units that wait into one batch.
	unitSize = 100
	// unitsAtOnce bounds how many units wait for the writer.
	unitsAtOnce = 64
)

// origin is what a fact follows from.
type origin struct {
	actor   string // who asked; empty means the dispatcher itself
	request string // the intent or request that all began with
	cause   string // what led to this very fact
	trace   string
}

// fact makes a fact about a task.
func (d *Dispatcher) fact(id string, body proto.Message, o origin) ledger.Fact {
	if o.actor == "" {
		o.actor = ledger.Dispatcher
	}
	return ledger.Fact{
		Noun: ledger.Task, Key: id, Body: body, ID: d.NewID(), At: d.Now(),
		Source: ledger.Dispatcher, Actor: o.actor, Request: o.request, Cause: o.cause, Trace: o.trace,
	}
}

// record records facts that do not depend on each other, many at once, and waits until
// the view holds them. A fact whose guard does not hold is left out, and the error is
// then a Conflict after all others were tried.
func (d *Dispatcher) record(ctx context.Context, drafts []ledger.Draft) error {
	size := unitSize
	if len(drafts) <= apartUpTo {
		size = 1
	}
	last, err := d.recordUnits(ctx, drafts, size)
	if last > 0 {
		if e := d.fold.Wait(ctx, last); e != nil {
			return e
		}
	}
	return err
}

func (d *Dispatcher) recordUnits(ctx context.Context, drafts []ledger.Draft, size int) (uint64, error) {
	var last atomic.Uint64
	var conflict atomic.Pointer[error]
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(unitsAtOnce)
	for start := 0; start < len(drafts); start += size {
		unit := drafts[start:min(start+size, len(drafts))]
		g.Go(func() error {
			sequence, err := d.recordUnit(ctx, unit)
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

// recordUnder records facts that are drafted under a claim, and gives the claim up when
// it is not known what became of them.
func (d *Dispatcher) recordUnder(ctx context.Context, claim uint64, drafts []ledger.Draft) error {
	err := d.record(ctx, drafts)
	d.doubt(claim, err)
	return err
}

// recordUnit records a unit, and one by one what is in it when one of its guards does
// not hold, so that a fact that never can be recorded does not keep others back. A claim
// that is lost is lost for the whole unit.
func (d *Dispatcher) recordUnit(ctx context.Context, unit []ledger.Draft) (last uint64, err error) {
	last, err = d.writer.Append(ctx, unit...)
	if len(unit) == 1 || !fault.Is(err, fault.Conflict) || unit[0].Guard.Subject == claimSubject {
		return last, err
	}
	conflict := err
	for _, draft := range unit {
		sequence, err := d.writer.Append(ctx, draft)
		if err != nil && !fault.Is(err, fault.Conflict) {
			return last, err
		}
		last = max(last, sequence)
	}
	return last, conflict
}

func raise(to *atomic.Uint64, v uint64) {
	for {
		have := to.Load()
		if v <= have || to.CompareAndSwap(have, v) {
			return
		}
	}
}
