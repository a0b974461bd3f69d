package fold

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/heap"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
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

// Follower keeps one view up to date.
type Follower struct {
	conn  *bus.Conn
	view  View
	opts  Options
	hears map[ledger.Noun]bool

	mu       sync.RWMutex // guards the view and what follows
	position uint64
	stored   time.Time // when the fact at position was stored
	changed  chan struct{}
	waiters  waiters
	unread   counts // facts that this program cannot read
	unfit    counts // facts that did not fit the view

	created  time.Time // which ledger the view was folded from
	accepted uint64    // how many facts the ledger may lack
	durable  bool      // whether the bus acknowledges only what is on its disk
	keepOut  error     // why the existing snapshot may not be overwritten

	back     chan struct{} // wakes when the bus is connected again
	ready    chan struct{}
	isReady  bool   // only used by the folding goroutine
	replayed func() // ends the replay of package heap
	target   uint64 // the end of the ledger when the replay began
	saved    uint64 // the position of the last snapshot
	marked   mark   // the mark that is kept
}

// New makes a follower of an empty view. Nothing happens until Run.
func New(conn *bus.Conn, view View, o Options) *Follower {
	return &Follower{
		conn: conn, view: view, opts: o, hears: setOf(o.Nouns), unread: counts{}, unfit: counts{},
		ready: make(chan struct{}), changed: make(chan struct{}), back: make(chan struct{}, 1),
	}
}

// Ready returns a channel that closes when the view holds every fact that the ledger held when Run began.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Read calls look while the view does not change. look must not keep any part of the view.
func (f *Follower) Read(look func()) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	look()
}

// Position returns the sequence of the last fact that the view holds.
func (f *Follower) Position() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.position
}

// HeldPosition is Position for a function that Read calls: a second read lock deadlocks behind a fact that
// waits to be folded.
func (f *Follower) HeldPosition() uint64 { return f.position }

// Stored returns the time at which the last fact of the view was stored; zero for a view without facts.
func (f *Follower) Stored() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.stored
}

// Changed returns a channel that closes at the next change of the view.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.changed
}

// Wait waits until the view holds the fact at sequence.
func (f *Follower) Wait(ctx context.Context, sequence uint64) error {
	if f.waiters.wait(ctx, sequence) {
		return nil
	}
	return fault.New(fault.Unavailable, "wait for fact %d, now at %d: %w", sequence, f.Position(), ctx.Err())
}

// Run reads the last snapshot, replays the facts after it, and follows until ctx is done. While the bus is
// unreachable it waits. It ends with a Conflict, LEDGER_SHORT or LEDGER_GAP, when the ledger lost facts.
func (f *Follower) Run(ctx context.Context) error {
	f.conn.OnBack(func() { ring(f.back) })
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
		if fault.Is(err, fault.Conflict) {
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
	return f.save()
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
	kept, err := f.readMark()
	if err != nil {
		return err
	}
	end, err := f.endOfLedger(ctx, kept.Sequence)
	if err != nil {
		return err
	}
	f.created, f.durable = end.Created, end.SyncsAlways
	if err := f.checkLedger(ctx, end); err != nil {
		return err
	}
	if err := f.load(ctx, end); err != nil {
		return err
	}
	f.saved = f.position
	f.replayed = heap.Replay()
	if f.target, err = f.lastThere(ctx, end); err != nil {
		return err
	}
	f.sayReady()
	return nil
}

// endOfLedger returns where the ledger ends, of which this service has read up to a sequence.
func (f *Follower) endOfLedger(ctx context.Context, read uint64) (end bus.Stream, err error) {
	err = f.askWithin(ctx, bus.LeaderSettles+bus.DefaultTimeout, func(ctx context.Context) (e error) {
		end, e = f.conn.StreamFrom(ctx, topology.Ledger, read)
		return e
	})
	return end, err
}

// ask asks the bus until it answers.
func (f *Follower) ask(ctx context.Context, question func(context.Context) error) error {
	return f.askWithin(ctx, bus.DefaultTimeout, question)
}

// askWithin is ask with the time that one answer may take.
func (f *Follower) askWithin(ctx context.Context, within time.Duration, question func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, within)
		err := question(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("find the ledger: %w (last: %v)", ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// holds reports whether the ledger holds, at position, the fact that was stored there at the given time. A
// ledger that was restored from a backup, or lost facts before they were synced, may end before the position
// or hold another fact there.
func (f *Follower) holds(
	ctx context.Context,
	end bus.Stream,
	position uint64,
	stored time.Time,
) (there bool, err error) {
	if position == 0 || position > end.LastSequence {
		return position == 0, nil
	}
	err = f.ask(ctx, func(ctx context.Context) error {
		msgs, err := f.conn.DirectGetFrom(ctx, topology.Ledger, bus.Everything, position, 1)
		if err != nil {
			return err
		}
		if len(msgs) == 0 { // this replica of the bus is behind the one that returned the end
			return fault.New(fault.Unavailable, "fact %d is not there yet", position)
		}
		there = msgs[0].Sequence == position && msgs[0].Time.Equal(stored)
		return nil
	})
	return there, err
}

// follow replays from the position on until an error occurs or the bus reconnects: the ledger of a reconnected
// bus may differ from the one before.
func (f *Follower) follow(ctx context.Context) error {
	select {
	case <-f.back: // drop an old wakeup: the requests below reach the present bus
	default:
	}
	end, err := f.endOfLedger(ctx, f.position)
	if err != nil {
		return err
	}
	if err := f.whole(end); err != nil {
		return err
	}
	same, err := f.holds(ctx, end, f.position, f.stored)
	if err != nil {
		return err
	}
	if !same || !end.Created.Equal(f.created) {
		return f.short(f.here(), end)
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
	err = f.replay(reading, f.position+1, p.put)
	return errors.Join(err, p.drain()) // what was read counts, so that the next one goes on behind it
}

// replay replays the ledger, over the gaps in it that were accepted.
func (f *Follower) replay(ctx context.Context, from uint64, take func([]bus.Message) error) error {
	if f.accepted > 0 {
		return f.conn.ReplayOverGaps(ctx, topology.Ledger, from, take)
	}
	return f.conn.Replay(ctx, topology.Ledger, from, take)
}

// apply folds one decoded chunk.
func (f *Follower) apply(c chunk) error {
	f.mu.Lock()
	for i := range c.facts {
		fact := c.facts[i]
		switch fit := f.applyOne(fact); {
		case fact.Body == nil:
			f.unread.add(fact.Noun, c.unread[fact.Sequence], fact.Sequence)
		case !fit:
			f.unfit.add(fact.Noun, fact.Name(), fact.Sequence)
		}
	}
	f.position, f.stored = c.last, c.stored
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	f.waiters.reach(c.last)

	if readable := slices.DeleteFunc(c.facts, func(f ledger.Fact) bool { return f.Body == nil }); f.isReady &&
		f.opts.OnFacts != nil &&
		len(readable) > 0 {
		f.opts.OnFacts(readable)
	}
	f.sayReady()
	if snapshotDue(f.position, f.saved, f.isReady) {
		if err := f.save(); err != nil {
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

// applyOne folds one fact and reports whether it fit. A fact that this code cannot
// read only moves the sequence of its key, so that the guards of later facts on the key are right.
func (f *Follower) applyOne(fact ledger.Fact) bool {
	if fact.Body != nil {
		return f.view.Apply(fact)
	}
	for _, t := range f.view.Tables() {
		if t.Name() == string(fact.Noun) {
			t.Touch(fact.Key, fact.Sequence)
		}
	}
	return false
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
