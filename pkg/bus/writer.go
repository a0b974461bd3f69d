package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// queuedUnits bounds how many appends wait; a further Append waits for a place.
	queuedUnits = 8192
	// gatherFor is how long facts are gathered once more than one append waits. An
	// atomic batch on a single server costs 9 to 17 ms whatever its size, so waiting a
	// little fills it; one append that is alone is never kept waiting.
	gatherFor = 3 * time.Millisecond
	// apartBelow is how many single facts are cheaper one by one than as a batch: each
	// costs one disk sync of about 0.15 ms.
	apartBelow = 64
)

// Writer records facts in the ledger for one service. Many goroutines append at once;
// one goroutine, Run, commits for all of them.
type Writer struct {
	conn    *Conn
	queue   chan *unit
	stopped chan struct{} // closed when Run has returned
}

// unit is the facts of one Append: all or none.
type unit struct {
	ctx    context.Context
	msgs   []*nats.Msg
	ids    []string
	guards []string // the guards' subjects
	done   chan result
}

type result struct {
	last uint64
	err  error
}

// NewWriter makes a writer. Nothing is recorded until Run runs.
func (c *Conn) NewWriter() *Writer {
	return &Writer{conn: c, queue: make(chan *unit, queuedUnits), stopped: make(chan struct{})}
}

// Append records facts, all or none, and gives the sequence of the last. At most
// topology.MaxBatch facts; see the package's guarantees for its errors.
func (w *Writer) Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error) {
	if len(drafts) == 0 || len(drafts) > topology.MaxBatch {
		return 0, fault.New(fault.Internal, "append %d facts: want 1 to %d", len(drafts), topology.MaxBatch)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	u, err := newUnit(ctx, drafts)
	if err != nil {
		return 0, err
	}
	select {
	case w.queue <- u:
	case <-ctx.Done():
		return 0, fault.New(fault.Unavailable, "append: %w", ctx.Err())
	}
	select {
	case r := <-u.done:
		return r.last, r.err
	case <-w.stopped:
		return u.answered()
	case <-ctx.Done():
		return 0, fault.New(fault.Unavailable, "append: the outcome is not known: %w", ctx.Err())
	}
}

// answered gives the answer that a writer which has stopped gave, if it did.
func (u *unit) answered() (uint64, error) {
	select {
	case r := <-u.done:
		return r.last, r.err
	default:
		return 0, fault.New(fault.Unavailable, "append: the writer has stopped")
	}
}

func newUnit(ctx context.Context, drafts []ledger.Draft) (*unit, error) {
	u := &unit{ctx: ctx, done: make(chan result, 1)}
	for _, d := range drafts {
		header, data, err := ledger.Encode(d.Fact)
		if err != nil {
			return nil, err
		}
		header[nats.MsgIdHdr] = []string{d.ID}
		if d.Guard.Subject != "" {
			setGuard(header, d.Guard.Subject, d.Guard.Sequence)
			u.guards = append(u.guards, d.Guard.Subject)
		}
		u.msgs = append(u.msgs, &nats.Msg{Subject: d.Subject(), Header: header, Data: data})
		u.ids = append(u.ids, d.ID)
	}
	return u, nil
}

// Run commits until ctx is done. Who still waits then is told by the channel stopped.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.stopped)
	var held []*unit
	for {
		var batch []*unit
		if batch, held = w.gather(ctx, held); ctx.Err() != nil {
			return nil
		}
		w.commit(ctx, batch)
	}
}

// gather takes the units of the next commit: those held back before, then those that
// wait, until the batch is full or nothing more comes. Units that collide with one in the
// batch are held back, in order; see footprint. It ends early when ctx is done.
func (w *Writer) gather(ctx context.Context, waiting []*unit) (batch, held []*unit) {
	taken, facts := newFootprint(), 0
	take := func(u *unit) {
		if facts+len(u.msgs) > topology.MaxBatch || taken.collides(u) {
			held = append(held, u)
		} else {
			batch, facts = append(batch, u), facts+len(u.msgs)
		}
		taken.add(u) // also of one that is held back: what collides with it waits behind it
	}
	for _, u := range waiting {
		take(u)
	}
	if len(batch) == 0 {
		select {
		case u := <-w.queue:
			take(u)
		case <-ctx.Done():
			return nil, nil
		}
	}
	var until <-chan time.Time
	for facts < topology.MaxBatch && len(held) < topology.MaxBatch {
		select {
		case u := <-w.queue:
			take(u)
			continue
		default:
		}
		if len(batch) == 1 && len(batch[0].msgs) == 1 && len(held) == 0 {
			return batch, held // alone: no reason to wait
		}
		if until == nil {
			until = time.After(gatherFor)
		}
		select {
		case u := <-w.queue:
			take(u)
		case <-until:
			return batch, held
		case <-ctx.Done():
			return nil, nil
		}
	}
	return batch, held
}

// commit records the units and answers each.
func (w *Writer) commit(ctx context.Context, units []*unit) {
	units = alive(units)
	if len(units) == 0 {
		return
	}
	if len(units) <= apartBelow && allSingle(units) {
		w.commitApart(ctx, units)
		return
	}
	w.commitBatch(ctx, units)
}

// alive answers the units whose callers have gone.
func alive(units []*unit) []*unit {
	out := units[:0]
	for _, u := range units {
		if u.ctx.Err() != nil {
			u.done <- result{err: fault.New(fault.Unavailable, "append: %w", u.ctx.Err())}
			continue
		}
		out = append(out, u)
	}
	return out
}

func allSingle(units []*unit) bool {
	for _, u := range units {
		if len(u.msgs) > 1 {
			return false
		}
	}
	return true
}

// commitApart publishes single facts side by side and waits for all, but not for a bus
// that is away or cannot write when the writer is told to stop.
func (w *Writer) commitApart(ctx context.Context, units []*unit) {
	told, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(drainWithin, giveUp) })()
	results := make(chan struct{}, len(units))
	for _, u := range units {
		go func() {
			defer func() { results <- struct{}{} }()
			once, cancel := context.WithCancel(u.ctx)
			defer cancel()
			defer context.AfterFunc(told, cancel)()
			ack, again, err := w.conn.publishRetrying(once, u.msgs[0])
			if again && err != nil {
				ack.Sequence, err = w.readBack(once, u, err)
			}
			u.done <- result{ack.Sequence, err}
		}()
	}
	for range units {
		<-results
	}
}

// commitBatch commits the units as one atomic batch. When a guard does not hold, the
// batch is tried again in halves, so that one conflict fails one unit only.
func (w *Writer) commitBatch(ctx context.Context, units []*unit) {
	last, err := w.publishBatch(ctx, units)
	switch {
	case err == nil:
		w.answer(units, last)
	case len(units) > 1 && !fault.Is(err, fault.Unavailable):
		half := len(units) / 2
		w.commitBatch(ctx, units[:half])
		w.commitBatch(ctx, units[half:])
	default:
		for _, u := range units {
			u.done <- result{err: err}
		}
	}
}

// answer gives each unit of a batch that ends at last its own last sequence: a batch is stored without gaps.
func (w *Writer) answer(units []*unit, last uint64) {
	for i := len(units) - 1; i >= 0; i-- {
		units[i].done <- result{last: last}
		last -= uint64(len(units[i].msgs))
	}
}

// publishBatch publishes an atomic batch (NATS ADR-50) and retries while the outcome is
// not known. It gives the sequence of the last message.
func (w *Writer) publishBatch(ctx context.Context, units []*unit) (uint64, error) {
	deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for again := false; ; again = true {
		ack, err := w.publishBatchOnce(deadline, units)
		if err == nil {
			return ack.Sequence, nil
		}
		if again || isCode(err, codeBatchDuplicate) {
			var seq uint64
			if seq, err = w.readBack(deadline, units[len(units)-1], err); err == nil {
				return seq, nil
			}
		}
		if !fault.Is(err, fault.Unavailable) {
			return 0, err
		}
		select {
		case <-deadline.Done():
			return 0, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w *Writer) publishBatchOnce(ctx context.Context, units []*unit) (pubAck, error) {
	id := nuid.Next()
	n, total := 0, 0
	for _, u := range units {
		total += len(u.msgs)
	}
	for _, u := range units {
		for _, m := range u.msgs {
			n++
			m.Header["Nats-Batch-Id"] = []string{id}
			m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(n)}
			delete(m.Header, "Nats-Batch-Commit")
			if n == total {
				m.Header["Nats-Batch-Commit"] = []string{"1"}
				once, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				return w.conn.publishOnce(once, m)
			}
			if err := w.conn.nc.PublishMsg(m); err != nil {
				return pubAck{}, requestError(err)
			}
		}
	}
	return pubAck{}, fault.New(fault.Internal, "empty batch")
}

// readBack looks whether a unit whose outcome was not known is stored after all: the
// last fact on its last subject has its id. Otherwise it gives the error that led here,
// or one of kind Unavailable when it cannot look: a conflict may be with the unit itself.
func (w *Writer) readBack(ctx context.Context, u *unit, cause error) (uint64, error) {
	i := len(u.msgs) - 1
	m, err := w.conn.DirectGet(ctx, topology.Ledger, u.msgs[i].Subject)
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return 0, fault.New(fault.Unavailable, "%w; whether it is stored is not known: %w", cause, err)
	case err != nil || m.Get(nats.MsgIdHdr) != u.ids[i]:
		return 0, cause
	}
	return m.Sequence, nil
}
