package failover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
)

// watcher follows the ledger as a person does, through whichever server of the bus is there.
type watcher struct {
	client *client.Client
	cancel func()
	ended  chan struct{}

	mu        sync.Mutex
	position  uint64
	upgrades  map[string]bool // the tasks of the upgrade, not of the load
	succeeded int             // of them
	seen      map[string]int  // by what may happen once, and to what
	assigned  map[string]time.Time
	took      []time.Duration // from an assignment on
	wrong     Wrong
	err       error
}

// watch begins to follow behind what is in the ledger now.
func (s *site) watch(ctx context.Context) (*watcher, error) {
	c, err := s.Client(ctx, tryWithin)
	if err != nil {
		return nil, err
	}
	end, err := c.LedgerEnd(ctx)
	if err != nil {
		c.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{client: c, cancel: cancel, ended: make(chan struct{}), position: end, seen: map[string]int{},
		upgrades: map[string]bool{}, assigned: map[string]time.Time{}}
	go func() {
		defer close(w.ended)
		for e, err := range c.Follow(ctx, client.Query{From: end + 1}) {
			w.take(e, err)
		}
	}()
	return w, nil
}

func (w *watcher) stop() {
	w.cancel()
	<-w.ended
	w.client.Close()
}

// take counts a fact, or keeps why following ended.
func (w *watcher) take(e client.Event, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.err = err
		return
	}
	if e.Sequence != w.position+1 {
		w.wrong.Reads++
	}
	w.position = e.Sequence
	switch body := e.Fact.Body.(type) {
	case *taskv1.Succeeded:
		if w.upgrades[e.Fact.Key] {
			w.succeeded++
		}
		if at, ok := w.assigned[e.Fact.Key]; ok {
			w.took = append(w.took, e.StoredAt.Sub(at))
		}
		w.once("end", e)
	case *taskv1.Failed, *taskv1.Undone, *taskv1.Expired, *taskv1.Cancelled, *taskv1.Superseded:
		w.once("end", e)
	case *taskv1.Queued:
		w.upgrades[e.Fact.Key] = body.GetAgent() == sample.Agent
		w.once("opened", e)
	case *taskv1.Assigned:
		if body.Opened != nil {
			w.upgrades[e.Fact.Key] = body.GetOpened().GetAgent() == sample.Agent
			w.once("opened", e)
		}
		w.assigned[e.Fact.Key] = e.StoredAt
		w.once(e.Name(), e)
	case *taskv1.Started:
		w.once(e.Name(), e)
	case *intentv1.Accepted, *intentv1.Refused:
		w.once("decision", e)
	case *serverv1.Offline:
		w.wrong.Offline++
	}
}

// fail keeps why the row cannot be measured.
func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

func (w *watcher) once(what string, e client.Event) {
	key := what + " " + string(e.Fact.Noun) + " " + e.Fact.Key
	if w.seen[key]++; w.seen[key] > 1 {
		w.wrong.Doubled++
	}
}

// counts returns a step that waits until so many tasks of the upgrade succeeded.
func (w *watcher) counts(tasks int) func(context.Context) error {
	return w.until("tasks succeeded", func() bool { return w.succeeded >= tasks })
}

// reaches returns a step that waits until the watcher has seen what is in the ledger now.
func (w *watcher) reaches(end func(context.Context) (uint64, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		last, err := end(ctx)
		if err != nil {
			return err
		}
		return w.until("the watcher has seen the ledger", func() bool { return w.position >= last })(ctx)
	}
}

func (w *watcher) until(what string, done func() bool) func(context.Context) error {
	return func(ctx context.Context) error {
		var failed error
		err := rig.Until(ctx, what, func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if failed = w.err; failed != nil || done() {
				return nil
			}
			return errors.New("not yet")
		})
		return errors.Join(err, failed)
	}
}

// sum adds what the watcher saw to a row.
func (w *watcher) sum(row *Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	row.Ended = slices.Sorted(slices.Values(w.took))
	row.Wrong.add(w.wrong)
}
