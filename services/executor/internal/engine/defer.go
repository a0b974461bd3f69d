package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// deferrals is what changes share that wait for the end of critical sections. It is safe for concurrent use.
type deferrals struct {
	sections busy.Sections
	changed  func() // called when another change may begin
	limit    atomic.Int64

	mu       sync.Mutex
	places   map[string]bool // by agent, of the changes that run at once
	without  map[string]bool // by agent, of the changes that found no place
	unwanted []string        // the tasks that are given up where they wait
}

func newDeferrals(cfg Config, changed func()) *deferrals {
	d := &deferrals{
		sections: busy.Sections{Root: cfg.Root, Boot: cfg.BootID}, changed: changed, places: map[string]bool{},
		without: map[string]bool{},
	}
	d.limit.Store(int64(deadline.Busy))
	return d
}

// take takes from a document the limit, and which tasks are not to wait any longer.
func (d *deferrals) take(from *desiredv1.Document) {
	limit := deadline.Busy
	if own := from.GetBusyLimit(); own != nil {
		limit = max(0, own.AsDuration())
	}
	d.limit.Store(int64(limit))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unwanted = from.GetUnwantedTaskIds()
}

// isUnwanted reports whether a task is no longer wanted.
func (d *deferrals) isUnwanted(task string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.unwanted, task)
}

// Take implements steps.Places: at most Parallel changes have one.
func (d *deferrals) Take(agent string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.places[agent] && len(d.places) >= Parallel {
		d.without[agent] = true
		return false
	}
	delete(d.without, agent)
	d.places[agent] = true
	return true
}

// Leave implements steps.Places.
func (d *deferrals) Leave(agent string) {
	d.ended(agent)
	d.changed()
}

// ended frees the place of a change that ended, if it has one.
func (d *deferrals) ended(agent string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.places, agent)
	delete(d.without, agent)
}

// step returns the step that waits. On a dead server nothing does, and no change that touches nothing.
func (d *deferrals) step(life *steps.ServerLife, reports *reporter, touches func(*steps.Run) bool) steps.Defer {
	return steps.Defer{
		Sections: d.sections,
		Limit: func() time.Duration {
			if life.Over() {
				return 0
			}
			return time.Duration(d.limit.Load())
		},
		Report: func(tx *journal.Tx, r *steps.Run, of *taskv1.Deferral) error {
			if r.TaskID == "" {
				return nil
			}
			return tx.Say(reports.deferral(r.TaskID, of))
		},
		Places: d, Unwanted: d.isUnwanted, Touches: touches,
	}
}

// Busy describes the critical sections that last on the server.
func (e *Engine) Busy() ([]string, error) {
	last, err := e.rooms.deferrals.sections.List(time.Now())
	var out []string
	for _, x := range last {
		out = append(out, x.String())
	}
	return out, err
}
