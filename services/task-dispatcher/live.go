package dispatcher

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

const (
	// slowTimes is how many times the median of its step makes a task slow.
	slowTimes = 3
	// slowAtLeast keeps steps of a few milliseconds from being called slow: servers say their step once a second.
	slowAtLeast = time.Second
	// sweepAbove is from how many entries on those of tasks that ended are looked for.
	sweepAbove = 256
)

// word is the last that a server said of a task.
type word struct {
	server string
	said   *taskv1.Progress
	since  time.Time // when the step was first heard
	heard  time.Time
}

// words is what servers last said of the tasks that are under way. It is memory only: a restart loses it, and the next
// word brings it back. Only words of a task's own server about a task that is under way are kept, so that it is bounded
// by the limit on those.
type words struct {
	mu    sync.Mutex
	of    map[string]word
	sweep int // how many entries there are when it is swept next
}

func newWords() *words { return &words{of: map[string]word{}, sweep: sweepAbove} }

func (w *words) get(id string) (word, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	said, ok := w.of[id]
	return said, ok
}

// tooSoon reports whether a server repeats itself faster than anybody reads.
func (w *words) tooSoon(p *taskv1.Progress, now time.Time) bool {
	last, ok := w.get(p.TaskId)
	return ok && last.said.Step == p.Step && now.Sub(last.heard) < 100*time.Millisecond
}

func (w *words) put(server string, p *taskv1.Progress, now time.Time, underWay func(id string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	since := now
	if last, ok := w.of[p.TaskId]; ok && last.said.Step == p.Step {
		since = last.since
	}
	w.of[p.TaskId] = word{server: server, said: p, since: since, heard: now}
	if len(w.of) < w.sweep {
		return
	}
	for id := range w.of {
		if !underWay(id) {
			delete(w.of, id)
		}
	}
	w.sweep = max(sweepAbove, 2*len(w.of))
}

// listen keeps what servers say live, until ctx is done.
func (d *Dispatcher) listen(ctx context.Context) error {
	if !d.ready(ctx) {
		return nil
	}
	stop, err := d.Conn.Subscribe(topology.LiveSubjects, d.heardLive)
	if err != nil {
		return err
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// heardLive keeps one word. What cannot be read, or is about a task of another server, is nobody's.
func (d *Dispatcher) heardLive(m bus.Message) {
	at, what, err := topology.ParseLiveSubject(m.Subject)
	p := &taskv1.Progress{}
	if err != nil || what != topology.LiveTask || bus.Unmarshal(m, p) != nil {
		return
	}
	now := d.Now()
	if d.words.tooSoon(p, now) {
		return
	}
	d.fold.Read(func() {
		if server, ok := d.view.OnServer(p.TaskId); !ok || server != at.Server {
			return
		}
		d.words.put(at.Server, p, now, func(id string) bool { _, ok := d.view.OnServer(id); return ok })
	})
}

// enliven adds to tasks that are under way how far they are. It is called while the view stands still.
func (d *Dispatcher) enliven(tasks ...*taskv1.Task) {
	now := d.Now()
	usual := map[string]map[taskv1.Step]time.Duration{}
	for _, t := range tasks {
		if !task.UnderWay(t.State) {
			continue
		}
		of, ok := usual[t.IntentId]
		if !ok && t.IntentId != "" {
			of = d.view.Usual(t.IntentId)
			usual[t.IntentId] = of
		}
		said, _ := d.words.get(t.Id)
		t.Live = live(t, said, of, now)
	}
}

// live returns how far a task is: at the step that its server said, since then, or else since its assignment.
func live(t *taskv1.Task, w word, usual map[taskv1.Step]time.Duration, now time.Time) *taskv1.Live {
	l := &taskv1.Live{
		Step: w.said.GetStep(), DoneBytes: w.said.GetDoneBytes(), TotalBytes: w.said.GetTotalBytes(),
		Since: timestamppb.New(w.since),
	}
	if l.Step == taskv1.Step_STEP_UNSPECIFIED {
		l.Since = t.AssignedAt
	}
	median, ok := usual[l.Step]
	if !ok {
		return l
	}
	l.Usual = durationpb.New(median)
	at := now.Sub(l.Since.AsTime())
	l.Slow = at > slowTimes*median && at > slowAtLeast
	return l
}
