// Package reconcile repeats passes that make the ledger follow from the view. A pass decides on the view and not on
// facts, so a restart loses nothing: facts only put the keys into a queue that a pass looks at.
//
// Guarantees:
//
//  1. A queue holds each key once, so it is bounded by the keys that there are.
//  2. A key that is added while a pass has it is looked at again.
//  3. The keys of a pass that failed are looked at again after a pause.
package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
)

// Once is the key of a queue whose passes look at everything: there is something to do.
type Once struct{}

// Queue is the keys that the next passes look at. It is safe for concurrent use; create it with NewQueue.
type Queue[K comparable] struct {
	// Latest is how far ahead a key is due at most: a later time comes from a clock that was set back. 0 means at any
	// time.
	Latest time.Duration

	now     func() time.Time
	members func(group string) []K
	wake    wakeup.Signal

	mu     sync.Mutex
	due    map[K]time.Time // when each key is due
	later  map[K]struct{}  // keys that are looked at when no other is due
	groups map[string]bool // whose members are to be added to later
}

// NewQueue returns an empty queue. Members returns the keys of a group for AddGroup, and may be nil without groups.
func NewQueue[K comparable](now func() time.Time, members func(group string) []K) *Queue[K] {
	return &Queue[K]{
		now: now, members: members, wake: wakeup.New(),
		due: map[K]time.Time{}, later: map[K]struct{}{}, groups: map[string]bool{},
	}
}

// Add has keys looked at as soon as possible.
func (q *Queue[K]) Add(keys ...K) { q.AddAt(time.Time{}, keys...) }

// AddAt has keys looked at when a time has come: the earliest of all times that they were added for.
func (q *Queue[K]) AddAt(at time.Time, keys ...K) {
	q.mu.Lock()
	for _, k := range keys {
		if have, ok := q.due[k]; !ok || at.Before(have) {
			q.due[k] = at
		}
	}
	q.mu.Unlock()
	if len(keys) > 0 && !at.After(q.now()) {
		q.wake.Wake()
	}
}

// AddLater has keys looked at when no other is due.
func (q *Queue[K]) AddLater(keys ...K) {
	q.mu.Lock()
	for _, k := range keys {
		q.later[k] = struct{}{}
	}
	q.mu.Unlock()
	q.wake.Wake()
}

// AddGroup has the members that a group will have then looked at when no other key is due.
func (q *Queue[K]) AddGroup(groups ...string) {
	q.mu.Lock()
	for _, g := range groups {
		q.groups[g] = true
	}
	q.mu.Unlock()
	q.wake.Wake()
}

// Take removes and returns keys that are due, at most so many; 0 means all. It calls the queue's members function
// without a lock.
func (q *Queue[K]) Take(most int) (keys []K) {
	q.expand()
	now := q.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	full := func() bool { return most > 0 && len(keys) == most }
	for k, at := range q.due {
		if full() {
			return keys
		}
		if wait := at.Sub(now); wait <= 0 || q.Latest > 0 && wait > q.Latest {
			keys = append(keys, k)
			delete(q.due, k)
			delete(q.later, k)
		}
	}
	for k := range q.later {
		if full() {
			return keys
		}
		keys = append(keys, k)
		delete(q.later, k)
	}
	return keys
}

// expand adds the members of groups.
func (q *Queue[K]) expand() {
	q.mu.Lock()
	groups := q.groups
	q.groups = map[string]bool{}
	q.mu.Unlock()
	for g := range groups {
		q.AddLater(q.members(g)...)
	}
}

// Has reports whether a key is to be looked at.
func (q *Queue[K]) Has(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, due := q.due[key]
	_, later := q.later[key]
	return due || later
}

// Len returns how many keys, and groups that were not looked up yet, are to be looked at, now or later.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.due) + len(q.groups)
	for k := range q.later {
		if _, twice := q.due[k]; !twice {
			n++
		}
	}
	return n
}

// Loop repeats a pass over a queue.
type Loop[K comparable] struct {
	Name  string
	Queue *Queue[K]
	// Pass looks at keys and records what is due. It must be safe to run twice.
	Pass  func(ctx context.Context, keys []K) error
	Most  int           // keys of a pass; 0 means all that are due
	Pause time.Duration // after a pass, so that facts gather and other work has its turn
	Retry time.Duration // after a pass that failed
	Every time.Duration // how often the queue is looked at without a wake-up; 0 means never
	Tick  func()        // is called every so often before that; may be nil
	Log   zerolog.Logger
}

// Run repeats the pass until ctx is done.
func (l Loop[K]) Run(ctx context.Context) error {
	var tick <-chan time.Time
	if l.Every > 0 {
		t := time.NewTicker(l.Every)
		defer t.Stop()
		tick = t.C
	}
	for {
		for keys := l.Queue.Take(l.Most); len(keys) > 0; keys = l.Queue.Take(l.Most) {
			if wakeup.Pause(ctx, l.pass(ctx, keys)) != nil {
				return nil
			}
		}
		select {
		case <-l.Queue.wake.C():
		case <-tick:
			if l.Tick != nil {
				l.Tick()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// pass looks at keys and returns the pause before the next ones.
func (l Loop[K]) pass(ctx context.Context, keys []K) time.Duration {
	err := l.Pass(ctx, keys)
	if err == nil || ctx.Err() != nil {
		return l.Pause
	}
	l.Log.Warn().Err(err).Str("loop", l.Name).Int(logs.Count, len(keys)).Msg("pass put off")
	l.Queue.Add(keys...)
	return max(l.Pause, l.Retry)
}
