package fold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// View is what a service folds. It has no error, no clock and no I/O.
type View interface {
	// Apply folds a fact and says whether it fit. One that does not fit must change
	// nothing but the sequence of its key.
	Apply(f ledger.Fact) (fit bool)
	// Tables gives the tables that make up the view, always in the same order.
	Tables() []Stored
	// Loaded is called after tables were read from a snapshot, to rebuild what is derived from them.
	Loaded()
}

// Options say what is folded.
type Options struct {
	Service string         // whose view it is
	Layout  uint32         // the version of the view's layout; change it when tables change
	Store   string         // a directory for snapshots, made if it is not there; empty means none are kept
	Nouns   []ledger.Noun  // the nouns that the view hears; nil means all
	Log     zerolog.Logger // what went wrong and healed
	// AcceptLedger takes a ledger that lost facts as it is, instead of ending with LEDGER_SHORT
	// or LEDGER_GAP. It is meant for one start, by an operator who knows what was lost.
	AcceptLedger bool
	OnFacts      func([]ledger.Fact) // called after live facts were applied, in order, outside the lock; must not block
}

// snapshotEvery is how many facts may be replayed again after a crash.
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
	unread   counts // facts that this program cannot read
	unfit    counts // facts that did not fit the view

	created  time.Time // which ledger the view was folded from
	accepted uint64    // how many facts the ledger may lack
	durable  bool      // whether the bus acknowledges only what is on its disk
	keepOut  error     // why no snapshot may be written over the one that is there

	back    chan struct{} // rings when the bus is back
	ready   chan struct{}
	isReady bool   // only used by the folding goroutine
	target  uint64 // the end of the ledger when the replay began
	saved   uint64 // the position of the last snapshot
	marked  mark   // the mark that is kept
}

// New makes a follower of an empty view. Nothing happens until Run.
func New(conn *bus.Conn, view View, o Options) *Follower {
	return &Follower{
		conn: conn, view: view, opts: o, hears: heard(o.Nouns), unread: counts{}, unfit: counts{},
		ready: make(chan struct{}), changed: make(chan struct{}), back: make(chan struct{}, 1),
	}
}

// Ready is closed when the view holds everything that was in the ledger when Run began.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Read calls look while the view stands still. Nothing of the view may be kept after it returns.
func (f *Follower) Read(look func()) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	look()
}

// Position gives the sequence of the last fact that the view holds.
func (f *Follower) Position() uint64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.position
}

// Stored gives when the last fact that the view holds was stored; zero when it holds none.
func (f *Follower) Stored() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.stored
}

// Changed gives a channel that is closed when the view next moves on.
func (f *Follower) Changed() <-chan struct{} {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.changed
}

// Wait waits until the view holds the fact at sequence.
func (f *Follower) Wait(ctx context.Context, sequence uint64) error {
	for {
		changed := f.Changed() // taken before the look, so that no change is missed
		if f.Position() >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "wait for fact %d, now at %d: %w", sequence, f.Position(), ctx.Err())
		}
	}
}

// Run reads the last snapshot, replays what came after it, and follows until ctx is
// done. When the bus goes away it waits for it. It ends with a Conflict, LEDGER_SHORT or
// LEDGER_GAP, when the ledger lacks what it had.
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
			continue // the bus was away
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
	end, err := f.endOfLedger(ctx)
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
	if f.target, err = f.lastThere(ctx, end); err != nil {
		return err
	}
	f.sayReady()
	return nil
}

func (f *Follower) endOfLedger(ctx context.Context) (end bus.Stream, err error) {
	err = f.ask(ctx, func(ctx context.Context) (e error) {
		end, e = f.conn.Stream(ctx, topology.Ledger)
		return e
	})
	return end, err
}

// ask asks the bus until it answers.
func (f *Follower) ask(ctx context.Context, question func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
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

// holds says whether the ledger, which has an end, holds at a position the fact that was
// stored there at a time. One that was restored from a backup, or lost what was not
// synced, may be behind the position or have another fact there.
func (f *Follower) holds(ctx context.Context, end bus.Stream, position uint64, stored time.Time) (there bool, err error) {
	if position == 0 || position > end.LastSequence {
		return position == 0, nil
	}
	err = f.ask(ctx, func(ctx context.Context) error {
		msgs, err := f.conn.DirectGetFrom(ctx, topology.Ledger, ledger.Prefix+">", position, 1)
		if err != nil {
			return err
		}
		if len(msgs) == 0 { // a replica of the bus that is behind the one that told the end
			return fault.New(fault.Unavailable, "fact %d is not there yet", position)
		}
		there = msgs[0].Sequence == position && msgs[0].Time.Equal(stored)
		return nil
	})
	return there, err
}

// follow replays from the position on until something breaks or the bus comes back from
// being away: what is there then may not be what was there before.
func (f *Follower) follow(ctx context.Context) error {
	select {
	case <-f.back: // what is asked next is asked of the bus that is there now
	default:
	}
	end, err := f.endOfLedger(ctx)
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-f.back:
			cancel()
		case <-ctx.Done():
		}
	}()
	p := newPipeline(ctx, cancel, f.hears, f.apply)
	err = f.replay(ctx, f.position+1, p.put)
	cancel()
	return errors.Join(err, p.wait())
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

	if told := slices.DeleteFunc(c.facts, func(f ledger.Fact) bool { return f.Body == nil }); f.isReady && f.opts.OnFacts != nil && len(told) > 0 {
		f.opts.OnFacts(told)
	}
	f.sayReady()
	if f.position-f.saved >= snapshotEvery {
		if err := f.save(); err != nil {
			f.opts.Log.Warn().Err(err).Msg("snapshot not written")
		}
	}
	return nil
}

// applyOne folds one fact and reports whether it fit. One that this code cannot read only
// moves the sequence of its key, so that the guards of later facts on the key are right.
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
		close(f.ready)
	}
}
