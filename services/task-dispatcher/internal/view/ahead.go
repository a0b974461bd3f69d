package view

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// What servers fetch ahead of its change is not urgent: it comes after all other tasks, and leaves them half of the
// slots.

// admissible returns the ready tasks that keep budgets and a pause of the site allow at a time, in order; what is
// fetched ahead has half of the slots.
func (q *Queue) admissible(at time.Time, concurrency int) iter.Seq[candidate] {
	paused := !q.Site.PausedUntil(at).IsZero()
	return func(yield func(candidate) bool) {
		room := max(1, concurrency/2) - q.ahead
		q.unspent(func(c candidate) bool {
			t := c.record.Task
			if t.Ahead != nil {
				if room--; room < 0 {
					return false // all that follow are fetched ahead too
				}
			}
			if s, _ := q.servers.Get(t.ServerId); paused && holdsBack(t, s) {
				return true
			}
			return yield(c)
		})
	}
}

// takeAhead takes the room that the manifest of an image needs in its server's document, or returns the fact that ends
// a task without room. Only one image is fetched ahead on a server at a time.
func (m *room) takeAhead(t *taskv1.Task) *taskv1.Cancelled {
	manifest := m.images.manifest(t.Ahead.GetImage().GetId())
	if manifest == nil {
		return &taskv1.Cancelled{Reason: "the image is no more"}
	}
	would := m.takenOn(t.ServerId) + m.ahead(t.ServerId) + entryOverhead + proto.Size(manifest)
	if would > MaxDocument {
		return &taskv1.Cancelled{Code: code.ServerFull, Reason: fmt.Sprintf(
			"with it the server's document would have %d bytes; %d are the most", would, MaxDocument)}
	}
	return nil
}

// makeWay takes what is fetched ahead out of a document that changes made too large meanwhile.
func makeWay(d *desiredv1.Document) {
	fetches := func(q *desiredv1.Request) bool { return q.GetAhead() != nil }
	if slices.ContainsFunc(d.Requests, fetches) && proto.Size(d) > MaxDocument {
		d.Requests = slices.DeleteFunc(d.Requests, fetches)
	}
}

// aheadBytes returns how much of a server's document what it fetches ahead takes.
func (w *Rows) aheadBytes(server string) (n int) {
	for _, r := range w.open[server] {
		if r.Task.Ahead != nil && task.UnderWay(r.Task.State) {
			n += entryOverhead + proto.Size(w.images.manifest(r.Task.Ahead.GetImage().GetId()))
		}
	}
	return n
}
