package agent

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// A repair is a change to the image that is installed already, because its files or its link
// are damaged. A task asks for it, or the document does: a damaged entry is due. A whole copy
// is fetched and staged beside the damaged image, takes its place in one step, and what runs
// is restarted from it. Nothing goes back to the damaged copy.
//
// A repair that does not hold fights something that changes the files on purpose, often the agent itself. So after
// mostInARow repairs without a task that did not hold, of an image, a link or a configuration, none follows until a
// task changes the agent or the executor starts again.
//
// A process that ends while its image is damaged is restarted from the whole copy. Its start
// waits for the copy, for holdWithin at most, and not right after a failed repair: an agent
// with a damaged file is better than no agent. It stays bad until it is repaired. Where the
// policy is not to heal, or healing is braked, no start waits, and only a task repairs.

// RestAfter is how long a change without a task rests after it was tried.
const RestAfter = 10 * time.Minute

// heldFor is how long a repair lasts that held.
const heldFor = 7 * 24 * time.Hour

// mostInARow is how many repairs may fail in a row.
const mostInARow = 2

const (
	holdWithin = 30 * time.Second
	holdEvery  = 500 * time.Millisecond
)

// Repairs remembers how the repairs of agents ended. It is safe for concurrent use.
type Repairs struct {
	damaged func(digest []byte) bool
	wake    func()
	log     zerolog.Logger

	allowed atomic.Bool // whether one may come without a task

	mu    sync.Mutex
	of    map[string]repairs   // by agent
	tried map[string]time.Time // when changes without a task began, by their id
}

type repairs struct {
	failed time.Time // when the last one of an image failed
	done   time.Time // when the last one without a task succeeded
	inARow int       // how many succeeded, each within heldFor of the one before
	over   bool      // the last of mostInARow did not hold
}

// NewRepairs returns a memory without repairs. damaged reports whether an image is damaged;
// wake lets the repair of one begin.
func NewRepairs(damaged func(digest []byte) bool, wake func(), log zerolog.Logger) *Repairs {
	r := &Repairs{damaged: damaged, wake: wake, log: log, of: map[string]repairs{}, tried: map[string]time.Time{}}
	r.allowed.Store(true)
	return r
}

// Allow permits repairs without a task, or forbids them, and returns what held before.
func (r *Repairs) Allow(is bool) (was bool) { return r.allowed.Swap(is) }

// Allowed reports whether repairs without a task may come.
func (r *Repairs) Allowed() bool { return r.allowed.Load() }

// Ended remembers how a change ended. One that was asked for, and succeeded, begins anew.
func (r *Repairs) Ended(rec *change.Record) {
	failed := rec.Repairs == change.RepairsImage && rec.Failure != nil && r.damaged(rec.To.Digest())
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[rec.Agent]
	switch {
	case failed:
		of.failed = time.Now()
	case rec.Failure != nil:
		return
	case rec.Repairs == "" || rec.TaskID != "":
		delete(r.of, rec.Agent)
		return
	default:
		if time.Since(of.done) > heldFor {
			of.inARow = 0
		}
		of.done, of.inARow = time.Now(), of.inARow+1
	}
	r.of[rec.Agent] = of
}

// Over reports whether an agent that is damaged is no longer repaired without a task, because no repair holds.
func (r *Repairs) Over(agent string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of[agent]
	if of.inARow >= mostInARow && !of.over && time.Since(of.done) <= heldFor {
		of.over = true
		r.of[agent] = of
		r.log.Warn().Str(logs.Agent, agent).Int("count", of.inARow).
			Msg("agent no longer repaired: its files were changed again after each repair")
	}
	return of.over
}

// Began remembers that a change without a task began, and forgets those of long ago.
func (r *Repairs) Began(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.tried, func(_ string, at time.Time) bool { return time.Since(at) >= RestAfter })
	r.tried[id] = time.Now()
}

// Rests reports whether a change without a task began less than RestAfter ago.
func (r *Repairs) Rests(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.tried[id]
	return ok && time.Since(at) < RestAfter
}

// NextAt returns when a change of an agent that was tried may come again without a task; zero when it was not tried,
// does not rest, or may not come.
func (r *Repairs) NextAt(id string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next := r.tried[id].Add(RestAfter); next.After(time.Now()) && r.Allowed() {
		return next
	}
	return time.Time{}
}

// Forget forgets which changes were tried.
func (r *Repairs) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.tried)
}

// Pending reports whether a version's process must not start now, as its image is damaged
// and a repair may come.
func (r *Repairs) Pending(v Version) bool {
	r.mu.Lock()
	failed := r.of[v.Agent].failed
	r.mu.Unlock()
	return r.Allowed() && time.Since(failed) >= RestAfter && r.damaged(v.Image.Digest()) && !r.Over(v.Agent)
}

// Hold returns when a process may be started again; false when stop was closed before.
func (r *Repairs) Hold(v Version, stop <-chan struct{}) bool {
	for n, end := 0, time.Now().Add(holdWithin); r.Pending(v); n++ {
		if n == 0 {
			r.wake()
		}
		if time.Now().After(end) {
			r.log.Warn().Str(logs.Agent, v.Agent).Msg("agent started from damaged files: no whole copy came in time")
			return true
		}
		if !supervise.Pause(stop, holdEvery) {
			return false
		}
	}
	return true
}
