// Package fold keeps a view of the ledger: it replays the ledger, signals when the view is ready, and follows
// new facts. Rebuilding is the same call on an empty view.
//
//	f := fold.New(conn, view, fold.Options{Service: "registry", Layout: 1})
//	go f.Run(ctx)
//	<-f.Ready()
//	f.Read(func() { … look at the view … })
//
// Guarantees:
//
//  1. Apply sees each fact exactly once, in the ledger's order, from one goroutine.
//  2. Read sees the view after a whole number of facts, at Position.
//  3. A view is a function of the ledger: a fresh fold up to a position has the same
//     canonical encoding, byte for byte, as a live view at that position, whatever
//     snapshots were used between.
//  4. A snapshot holds its position in the same file, written whole or not at all. A
//     snapshot that is damaged, of another ledger, or of a program that knew other facts
//     or folded otherwise (FormatDigest) is not used; the ledger is replayed from the start
//     instead. One in a newer format is refused by its number and never written over.
//  5. A ledger that lacks facts which the view holds, also when it has grown again since,
//     ends Run with a Conflict: LEDGER_SHORT, or LEDGER_GAP when facts between others are
//     missing. Run checks the ledger at each start and after each reconnection to the bus.
//     The mark, SERVICE.mark in the store, records across restarts how far the ledger was
//     read. It is written each second and at the end, and only while the bus acknowledges
//     nothing before it is on the disk. Options.AcceptLedger continues without the lost facts.
//  6. A fact that does not fit changes nothing, and is counted.
//  7. A fact that this program cannot read changes nothing but its key's sequence, is
//     counted apart, and blocks every decision that rests on its noun (MayDecide,
//     NewWriter). The counts are part of snapshots.
//
// Facts are decoded by several goroutines side by side and applied by one.
package fold

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/heap"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
)

// View is the state that a service folds from facts. It has no error, no clock and no I/O.
type View interface {
	// Apply folds a fact and reports whether it fit. A fact that does not fit must change
	// nothing but the sequence of its key.
	Apply(f ledger.Fact) (fit bool)
	// Tables returns the tables that make up the view, always in the same order.
	Tables() []Stored
	// Loaded rebuilds the data derived from the tables. It is called after they were read from a snapshot.
	Loaded()
}

// Options configure a follower.
type Options struct {
	Service string         // the service that owns the view
	Layout  uint32         // the version of the view's layout; change it when tables change
	Store   string         // the directory for snapshots, created if missing; empty keeps no snapshots
	Nouns   []ledger.Noun  // the nouns that the view folds; nil means all
	Log     zerolog.Logger // receives the failures that the follower recovered from
	// AcceptLedger takes a ledger that lost facts as it is, instead of ending with LEDGER_SHORT
	// or LEDGER_GAP. An operator who knows the loss sets it for one start.
	AcceptLedger bool
	OnFacts      func([]ledger.Fact) // called after live facts were applied, in order, outside the lock; must not block
}

// snapshotEvery bounds the number of facts that a restart after a crash replays again.
const snapshotEvery = 100_000

// Follower keeps one view up to date; its Reader looks at the view.
type Follower struct {
	*Reader
	source source
	opts   Options

	back     chan struct{} // wakes when the bus is connected again
	ready    chan struct{}
	serving  chan struct{}
	isReady  bool   // only used by the folding goroutine
	replayed func() // ends the replay of package heap
	target   uint64 // the end of the ledger when the replay began
	saved    uint64 // the position of the last snapshot
}

// New makes a follower of an empty view. Nothing happens until Run.
func New(conn *bus.Conn, view View, o Options) *Follower {
	return &Follower{
		Reader: newReader(view, o), source: source{conn: conn, opts: o}, opts: o,
		ready: make(chan struct{}), serving: make(chan struct{}), back: make(chan struct{}, 1),
	}
}

// Ready returns a channel that closes when the view holds every fact that the ledger held when Run began.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Run reads the last snapshot, replays the facts after it, and follows until ctx is done. While the bus is
// unreachable it waits. It ends with a Conflict, LEDGER_SHORT or LEDGER_GAP, when the ledger lost facts, and with
// TOPOLOGY_TOO_NEW when only newer programs may use the bus.
func (f *Follower) Run(ctx context.Context) error {
	f.source.conn.OnBack(func() { ring(f.back) })
	if err := f.begin(ctx); err != nil {
		return ignoreDone(ctx, err)
	}
	defer f.startMark(ctx)()
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 2*time.Second) {
		before := f.Position()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		if fault.Is(err, fault.Conflict) || fault.RefusalOf(err).GetCode() == code.TopologyTooNew {
			return err
		}
		if err == nil {
			continue // the bus was disconnected
		}
		f.opts.Log.Warn().Err(err).Uint64(logs.Sequence, f.Position()).Msg("fold interrupted")
		if f.Position() > before {
			wait = 50 * time.Millisecond
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return errors.Join(f.save(), f.prune())
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// ring rings a bell that may be ringing already.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// begin finds the ledger and the end of what must be replayed before the view is ready.
func (f *Follower) begin(ctx context.Context) error {
	kept, err := f.source.readMark()
	if err != nil {
		return err
	}
	end, err := f.source.endOfLedger(ctx, kept.Sequence)
	if err != nil {
		return err
	}
	f.source.created, f.source.durable = end.Created, end.SyncsAlways
	if err := f.source.checkLedger(ctx, end); err != nil {
		return err
	}
	if err := f.load(ctx, end); err != nil {
		return err
	}
	f.saved = f.position
	f.replayed = heap.Replay()
	if f.target, err = f.source.lastThere(ctx, end); err != nil {
		return err
	}
	f.sayReady()
	return nil
}

// follow replays from the position on until an error occurs or the bus reconnects: the ledger of a reconnected
// bus may differ from the one before.
func (f *Follower) follow(ctx context.Context) error {
	select {
	case <-f.back: // drop an old wakeup: the requests below reach the present bus
	default:
	}
	end, err := f.source.endOfLedger(ctx, f.position)
	if err != nil {
		return err
	}
	if err := f.source.whole(end); err != nil {
		return err
	}
	same, err := f.source.holds(ctx, end, f.position, f.stored)
	if err != nil {
		return err
	}
	if !same || !end.Created.Equal(f.source.created) {
		return f.source.short(f.here(), end)
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.back:
			cancel()
		case <-reading.Done():
		}
	}()
	p := newPipeline(ctx, cancel, f.hears, f.apply)
	err = f.source.replay(reading, f.position+1, p.put)
	return errors.Join(err, p.drain()) // what was read counts, so that the next one goes on behind it
}

// apply folds one decoded chunk, and does what follows from it.
func (f *Follower) apply(c chunk) error {
	f.fold(c)
	if readable := slices.DeleteFunc(c.facts, func(f ledger.Fact) bool { return f.Body == nil }); f.isReady &&
		f.opts.OnFacts != nil &&
		len(readable) > 0 {
		f.opts.OnFacts(readable)
	}
	f.sayReady()
	if snapshotDue(f.position, f.saved, f.isReady) {
		if err := errors.Join(f.save(), f.prune()); err != nil {
			f.opts.Log.Warn().Err(err).Msg("snapshot not written")
		}
	}
	return nil
}

// snapshotDue reports whether a snapshot is due at a position, after the last one at saved. A replay writes one each
// time that it has doubled its way: a snapshot is as large as the view, so that one after every hundred thousand facts
// would cost more than the replay itself.
func snapshotDue(position, saved uint64, live bool) bool {
	return position-saved >= snapshotEvery && (live || position >= 2*saved)
}

func (f *Follower) sayReady() {
	if !f.isReady && f.position >= f.target {
		f.isReady = true
		f.replayed()
		close(f.ready)
		if f.position >= snapshotEvery {
			go debug.FreeOSMemory() // a replay leaves as much garbage as there is in the view
		}
	}
}

// WhenReady returns a part of a service that waits for the view before it calls run. It returns nil
// without calling run when ctx is done first.
func (f *Follower) WhenReady(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-f.Ready():
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}
