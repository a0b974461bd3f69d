package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// queuedUnits bounds how many appends wait; a further Append waits for a place.
	queuedUnits = 8192
	// gatherFor is how long facts are gathered for an atomic batch. One on a single server
	// costs 9 to 17 ms whatever its size, so waiting a little fills it. Facts that are
	// recorded one by one are never kept waiting.
	gatherFor = 3 * time.Millisecond
	// appendWithin bounds one Append.
	appendWithin = 30 * time.Second
)

// Writer records facts in the ledger for one service. Many goroutines append at once;
// one goroutine, Run, commits for all of them.
type Writer struct {
	stream  recorder
	gate    Gate
	queue   chan *unit
	stopped chan struct{} // closed when Run has returned
	several func() bool   // whether the bus has several servers; nil means one
	metrics *metrics.Set  // or nil
}

// Gate decides what a writer may record.
type Gate interface {
	// MayDecide refuses facts about a noun.
	MayDecide(about ledger.Noun) error
	// Contract is the contract in force, beyond which nothing is recorded; see ledger.Encode.
	Contract() uint32
}

// openGate admits everything of the first contract.
type openGate struct{}

func (openGate) MayDecide(ledger.Noun) error { return nil }

func (openGate) Contract() uint32 { return 1 }

// unit is the facts of one Append: all or none.
type unit struct {
	ctx    context.Context
	born   time.Time // by the wall clock: no message of it was sent before
	msgs   []*nats.Msg
	guards []string // the guards' subjects
	done   chan result
}

type result struct {
	last uint64
	err  error
}

// NewWriter makes a writer. Nothing is recorded until Run runs.
func (c *Conn) NewWriter() *Writer {
	w := newWriter(ledgerStream{c})
	w.several = c.ofSeveral
	return w
}

func newWriter(stream recorder) *Writer {
	return &Writer{stream: stream, gate: openGate{}, queue: make(chan *unit, queuedUnits), stopped: make(chan struct{})}
}

// NewGatedWriter makes a writer that records what a gate lets through.
func (c *Conn) NewGatedWriter(gate Gate) *Writer {
	w := c.NewWriter()
	w.gate = gate
	return w
}

// Waiting returns how many appends wait to be committed.
func (w *Writer) Waiting() int { return len(w.queue) }

// Measure counts and times what is appended from now on. It is called before Run.
func (w *Writer) Measure(m *metrics.Set) { w.metrics = m }

// Append records facts, all or none, and returns the sequence of the last. At most
// topology.MaxBatch facts; see the package's guarantees for its errors.
func (w *Writer) Append(ctx context.Context, drafts ...ledger.Draft) (uint64, error) {
	if err := CheckStores(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	last, err := w.append(ctx, drafts)
	result := "stored"
	switch {
	case fault.Is(err, fault.Conflict):
		result = "conflict"
	case fault.Is(err, fault.Unavailable):
		result = "unavailable"
	case err != nil:
		result = "refused"
	default:
		w.metrics.Add(metrics.AppendedFacts, float64(len(drafts)))
	}
	w.metrics.Add(metrics.Appends, 1, result)
	w.metrics.Time(metrics.AppendSeconds, time.Since(begun).Seconds())
	return last, err
}

func (w *Writer) append(ctx context.Context, drafts []ledger.Draft) (uint64, error) {
	if len(drafts) == 0 || len(drafts) > topology.MaxBatch {
		return 0, fault.New(fault.Internal, "append %d facts: want 1 to %d", len(drafts), topology.MaxBatch)
	}
	for _, d := range drafts {
		if err := w.gate.MayDecide(d.Noun); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, appendWithin)
	defer cancel()
	u, err := newUnit(ctx, drafts, w.gate.Contract())
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

// answered returns the answer that a writer which has stopped gave, if it did.
func (u *unit) answered() (uint64, error) {
	select {
	case r := <-u.done:
		return r.last, r.err
	default:
		return 0, fault.New(fault.Unavailable, "append: the writer has stopped")
	}
}

func newUnit(ctx context.Context, drafts []ledger.Draft, contract uint32) (*unit, error) {
	u := &unit{ctx: ctx, born: time.Now().Round(0), done: make(chan result, 1)}
	ids := make(map[string]bool, len(drafts))
	for _, d := range drafts {
		if ids[d.ID] {
			return nil, fault.New(fault.Internal, "two facts of one append have the id %s", d.ID)
		}
		ids[d.ID] = true
		header, data, err := ledger.Encode(d.Fact, contract)
		if err != nil {
			return nil, err
		}
		header[nats.MsgIdHdr] = []string{d.ID}
		if d.Guard.Subject != "" {
			setGuard(header, d.Guard.Subject, d.Guard.Sequence)
			u.guards = append(u.guards, d.Guard.Subject)
		}
		u.msgs = append(u.msgs, &nats.Msg{Subject: d.Subject(), Header: header, Data: data})
	}
	return u, nil
}

// Run commits until ctx is done. Closing stopped then releases pending Appends.
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
// wait, until the batch is full or nothing more comes. It returns nothing when ctx is done.
func (w *Writer) gather(ctx context.Context, waiting []*unit) (batch, held []*unit) {
	g := &gathering{taken: newFootprint()}
	for _, u := range waiting {
		g.take(u)
	}
	if len(g.batch) == 0 && !w.takeWithin(ctx, g, nil) {
		return nil, nil
	}
	w.fill(ctx, g)
	if ctx.Err() != nil {
		return nil, nil
	}
	return g.batch, g.held
}

// fill takes units until the batch is full, gatherFor has passed, or ctx is done. It does not wait when what it took is
// recorded fact by fact: on one server of the bus, up to apartBelow single facts, and otherwise one.
func (w *Writer) fill(ctx context.Context, g *gathering) {
	var until <-chan time.Time
	most := apartBelow
	if w.several != nil && w.several() {
		most = 1
	}
	for !g.full() {
		if w.takeQueued(g) {
			continue
		}
		if g.singles(most) {
			return
		}
		if until == nil {
			until = time.After(gatherFor)
		}
		if !w.takeWithin(ctx, g, until) {
			return
		}
	}
}

// takeQueued takes a unit if one waits, and reports whether it did.
func (w *Writer) takeQueued(g *gathering) bool {
	select {
	case u := <-w.queue:
		g.take(u)
		return true
	default:
		return false
	}
}

// takeWithin waits for a unit and takes it. It reports false when until fires or ctx is done first; a nil
// until never fires.
func (w *Writer) takeWithin(ctx context.Context, g *gathering, until <-chan time.Time) bool {
	select {
	case u := <-w.queue:
		g.take(u)
		return true
	case <-until:
		return false
	case <-ctx.Done():
		return false
	}
}

// gathering is the next commit while its units are collected.
type gathering struct {
	batch []*unit
	held  []*unit // left for a later commit, in order
	facts int     // in the batch
	taken *footprint
}

// take adds a unit to the batch. It holds back a unit that does not fit or collides with an earlier one; see
// footprint.
func (g *gathering) take(u *unit) {
	if g.facts+len(u.msgs) > topology.MaxBatch || g.taken.collides(u) {
		g.held = append(g.held, u)
	} else {
		g.batch, g.facts = append(g.batch, u), g.facts+len(u.msgs)
	}
	g.taken.add(u) // also of one that is held back: what collides with it waits behind it
}

// full reports whether the batch takes no further fact, or as many units are held back.
func (g *gathering) full() bool {
	return g.facts >= topology.MaxBatch || len(g.held) >= topology.MaxBatch
}

// singles reports whether only single facts were taken, at most that many, so that there is no reason to wait for more.
func (g *gathering) singles(most int) bool {
	return len(g.batch) <= most && g.facts == len(g.batch) && len(g.held) == 0
}
