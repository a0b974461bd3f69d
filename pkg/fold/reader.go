package fold

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Reader looks at a view that is being folded. It is safe for concurrent use.
type Reader struct {
	service string
	hears   map[ledger.Noun]bool // the nouns that the view folds; nil means all

	mu       sync.RWMutex // guards the view and what follows
	view     View
	position uint64
	stored   time.Time // when the fact at position was stored
	changed  chan struct{}
	unread   counts // facts that this program cannot read
	unfit    counts // facts that did not fit the view

	waiters waiters
}

func newReader(view View, o Options) *Reader {
	return &Reader{
		service: o.Service, hears: setOf(o.Nouns), view: view,
		changed: make(chan struct{}), unread: counts{}, unfit: counts{},
	}
}

// Read calls look while the view does not change. look must not keep any part of the view.
func (r *Reader) Read(look func()) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	look()
}

// Position returns the sequence of the last fact that the view holds.
func (r *Reader) Position() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.position
}

// HeldPosition is Position for a function that Read calls: a second read lock deadlocks behind a fact that
// waits to be folded.
func (r *Reader) HeldPosition() uint64 { return r.position }

// Stored returns the time at which the last fact of the view was stored; zero for a view without facts.
func (r *Reader) Stored() time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.stored
}

// Changed returns a channel that closes at the next change of the view.
func (r *Reader) Changed() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.changed
}

// Wait waits until the view holds the fact at sequence.
func (r *Reader) Wait(ctx context.Context, sequence uint64) error {
	if r.waiters.wait(ctx, sequence) {
		return nil
	}
	return fault.New(fault.Unavailable, "wait for fact %d, now at %d: %w", sequence, r.Position(), ctx.Err())
}

// fold folds one decoded chunk.
func (r *Reader) fold(c chunk) {
	r.mu.Lock()
	for i := range c.facts {
		fact := c.facts[i]
		fit := r.applyOne(fact)
		if u, newer := c.unread[fact.Sequence]; newer {
			n := r.unread.add(fact.Noun, u.kind, fact.Sequence)
			n.Unknown, n.Writer = cmp.Or(n.Unknown, u.unknown), cmp.Or(n.Writer, u.writer)
		} else if !fit {
			r.unfit.add(fact.Noun, fact.Name(), fact.Sequence)
		}
	}
	r.position, r.stored = c.last, c.stored
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	r.waiters.reach(c.last)
}

// applyOne folds one fact and reports whether it fit. A fact that this code cannot
// read only moves the sequence of its key, so that the guards of later facts on the key are right.
func (r *Reader) applyOne(fact ledger.Fact) bool {
	if fact.Body != nil {
		return r.view.Apply(fact)
	}
	for _, t := range r.view.Tables() {
		if t.Name() == string(fact.Noun) {
			t.Touch(fact.Key, fact.Sequence)
		}
	}
	return false
}

// waiters wait for positions of a view. Each is woken once, when the view holds what it waits for: hundreds wait at a
// time in a large run, and the view moves hundreds of times a second.
type waiters struct {
	mu      sync.Mutex
	reached uint64
	open    waiterHeap
}

// waiter waits for a position.
type waiter struct {
	position uint64
	woken    chan struct{}
	index    int // in the heap
}

// wait blocks until a position is reached or ctx is done, and reports whether it is reached.
func (w *waiters) wait(ctx context.Context, position uint64) bool {
	w.mu.Lock()
	if position <= w.reached {
		w.mu.Unlock()
		return true
	}
	one := &waiter{position: position, woken: make(chan struct{})}
	heap.Push(&w.open, one)
	w.mu.Unlock()
	select {
	case <-one.woken:
		return true
	case <-ctx.Done():
		return w.leave(one)
	}
}

// leave removes a waiter, and reports whether it was woken before.
func (w *waiters) leave(one *waiter) (woken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-one.woken:
		return true
	default:
		heap.Remove(&w.open, one.index)
		return false
	}
}

// reach wakes those that wait for a position up to this one.
func (w *waiters) reach(position uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached = max(w.reached, position)
	for len(w.open) > 0 && w.open[0].position <= position {
		close(heap.Pop(&w.open).(*waiter).woken)
	}
}

// waiterHeap orders waiters by their position, the lowest first. It implements heap.Interface.
type waiterHeap []*waiter

func (h waiterHeap) Len() int { return len(h) }

func (h waiterHeap) Less(a, b int) bool { return h[a].position < h[b].position }

func (h waiterHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].index, h[b].index = a, b
}

// Push adds a *waiter.
func (h *waiterHeap) Push(one any) {
	one.(*waiter).index = len(*h)
	*h = append(*h, one.(*waiter))
}

// Pop removes the last *waiter.
func (h *waiterHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
