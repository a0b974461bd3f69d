package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// ledgerFacts reads the whole ledger.
func (w *world) ledgerFacts() []ledger.Fact {
	w.t.Helper()
	var out []ledger.Fact
	for from := uint64(1); ; {
		msgs, err := w.conn.DirectGetFrom(context.Background(), topology.Ledger, topology.LedgerSubjects, from, 500)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(msgs) == 0 {
			return out
		}
		for _, m := range msgs {
			f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
			if err != nil {
				w.t.Fatal(err)
			}
			out, from = append(out, f), m.Sequence+1
		}
	}
}

// replay walks the ledger, checks that the promises hold at each position, and returns the ends of
// tasks.
func (w *world) replay(concurrency int) (ended map[string]task.State) {
	w.t.Helper()
	states, about := map[string]task.State{}, map[string]string{}
	busy, underWay := map[string]string{}, 0
	last := map[string]*instancev1.Wanted{} // by server and agent
	ended = map[string]task.State{}
	for _, f := range w.ledgerFacts() {
		what := f.Name()
		if b, ok := f.Body.(*instancev1.Wanted); ok {
			last[f.Key] = b
		}
		if f.Noun != ledger.Task || what == "claimed" {
			continue
		}
		if q := task.Opened(f.Body); q != nil {
			wanted := last[ledger.Key(q.ServerId, q.Agent)]
			if instance.Overtaken(f.Body, wanted.GetInstanceId(), wanted.GetGeneration()) {
				continue
			}
			if states[f.Key] != "" {
				w.t.Errorf("task %s was opened twice", f.Key)
			}
			states[f.Key], about[f.Key] = task.Unknown, q.ServerId+"/"+q.Agent
		}
		next, ok := task.Life.Next(states[f.Key], what)
		if !ok {
			w.t.Errorf("fact %d: task %s is %s and cannot be %s", f.Sequence, f.Key, states[f.Key], what)
			continue
		}
		was := task.UnderWay(states[f.Key].Proto())
		states[f.Key] = next
		switch is := task.UnderWay(next.Proto()); {
		case is && !was:
			if other := busy[about[f.Key]]; other != "" {
				w.t.Errorf("fact %d: tasks %s and %s of %s are under way at once", f.Sequence, other, f.Key,
					about[f.Key])
			}
			busy[about[f.Key]] = f.Key
			if underWay++; underWay > concurrency {
				w.t.Errorf("fact %d: %d tasks are under way, the limit is %d", f.Sequence, underWay, concurrency)
			}
		case was && !is:
			delete(busy, about[f.Key])
			underWay--
		}
		if task.Ended(next.Proto()) {
			ended[f.Key] = next
		}
	}
	return ended
}

// sameAsFolded checks that a dispatcher's view and the stored documents equal a fresh fold of the
// ledger.
func (w *world) sameAsFolded(d *Dispatcher, servers ...string) {
	w.t.Helper()
	polltest.Eventually(w.t, "every document is up to date", func() bool { return d.publisher.changed.idle() })
	// The ledger may still grow, by a claim for example, so both are taken at one position.
	position, have, err := d.follower.Canonical()
	if err != nil {
		w.t.Fatal(err)
	}
	fresh := view.New(nil)
	options := View.Options()
	if _, err := fold.RebuildTo(context.Background(), w.conn, fresh, options, position); err != nil {
		w.t.Fatal(err)
	}
	want, err := fold.CanonicalOf(fresh)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		w.t.Errorf("the live view at %d has %d bytes, the rebuilt one %d, and they differ", position, len(have),
			len(want))
	}
	for _, s := range servers {
		same(w.t, w, d, s)
	}
}

func servers(n int) []string {
	var out []string
	for i := range n {
		out = append(out, serverID(i))
	}
	return out
}

// wantAll records that agents are wanted on all servers, many at once.
func (w *world) wantAll(servers, agents []string, generation uint64, image *imagev1.Ref) {
	w.t.Helper()
	done := make(chan bool)
	for _, s := range servers {
		go func() {
			for _, a := range agents {
				w.want(s, a, generation, image)
			}
			done <- true
		}()
	}
	for range servers {
		<-done
	}
}

// awaitEnds waits until a number of tasks have ended, in the view of a dispatcher, and fails the test when none ends
// for a minute.
func (w *world) awaitEnds(d *Dispatcher, n int) {
	w.t.Helper()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	for have, before := -1, -1; ; before = have {
		moved := d.follower.Changed()
		d.follower.Read(func() { _, have, _ = d.view.Listing.Counts() })
		if have >= n {
			return
		}
		if have > before {
			end.Reset(time.Minute)
		}
		select {
		case <-moved:
		case <-end.C:
			w.t.Fatalf("%d tasks ended, want %d, and none for a minute", have, n)
		}
	}
}

func TestTwoDispatchersKeepEveryPromise(t *testing.T) {
	t.Parallel()
	const concurrency = 7
	w := newWorld(t)
	all, agents := servers(60), []string{"a", "b", "c", "d"}
	w.agent("a", 1)
	w.agent("b", 2, "a")
	img, next := w.image("any", "1.0.0"), w.image("any", "2.0.0")
	w.enrol(all...)
	one, _ := w.start(Config{Concurrency: concurrency})
	two, _ := w.start(Config{Concurrency: concurrency})
	w.execute(func(v taskv1.Verb, agent string) taskv1.State {
		if v == taskv1.Verb_VERB_UPGRADE && agent == "c" {
			return taskv1.State_STATE_UNDONE
		}
		return taskv1.State_STATE_SUCCEEDED
	})
	w.wantAll(all, agents, 1, img)
	w.awaitEnds(one, 240)
	w.wantAll(all, agents, 2, next)
	w.awaitEnds(one, 480)
	w.awaitEnds(two, 480)
	count := map[task.State]int{}
	for _, s := range w.replay(concurrency) {
		count[s]++
	}
	if count[task.Succeeded] != 420 || count[task.Undone] != 60 || len(count) != 2 {
		t.Errorf("the tasks ended as %v, want 420 succeeded and 60 undone", count)
	}
	w.sameAsFolded(one, all...)
	w.sameAsFolded(two, all...)
}

func TestARestartedDispatcherContinues(t *testing.T) {
	t.Parallel()
	const concurrency = 5
	w := newWorld(t)
	store := t.TempDir()
	all := servers(40)
	w.enrol(all...)
	w.execute(nil)
	img := w.image("any", "1.0.0")
	d, stop := w.start(Config{Concurrency: concurrency, Store: store})
	w.wantAll(all, []string{"a", "b"}, 1, img)
	for n := 1; n <= 4; n++ {
		w.awaitEnds(d, n*15)
		stop()
		d, stop = w.start(Config{Concurrency: concurrency, Store: store})
	}
	w.awaitEnds(d, 80)
	if ended := w.replay(concurrency); len(ended) != 80 {
		t.Errorf("%d tasks ended, want 80", len(ended))
	}
	w.sameAsFolded(d, all...)
}

func TestManyTasksAreRecordedInBatches(t *testing.T) {
	t.Parallel()
	const concurrency = 1000
	w := newWorld(t)
	all := servers(200)
	w.enrol(all...)
	w.execute(nil)
	img := w.image("any", "1.0.0")
	agents := []string{"a", "b", "c", "d", "e", "f"}
	w.wantAll(all, agents, 1, img) // before anybody dispatches
	d, _ := w.start(Config{Concurrency: concurrency})
	began := time.Now()
	w.awaitEnds(d, 1200)
	t.Log(fmt.Sprint("1,200 tasks took ", time.Since(began)))
	if ended := w.replay(concurrency); len(ended) != 1200 {
		t.Errorf("%d tasks ended, want 1200", len(ended))
	}
	w.sameAsFolded(d, all...)
}

func TestOfOverlappingChangesTheLastOneHolds(t *testing.T) {
	t.Parallel()
	const concurrency, generations = 6, 5
	w := newWorld(t)
	all, agents := servers(30), []string{"a", "b", "c"}
	w.enrol(all...)
	one, _ := w.start(Config{Concurrency: concurrency})
	two, _ := w.start(Config{Concurrency: concurrency})
	w.execute(nil)
	var last *imagev1.Ref
	for g := range generations {
		last = w.image("any", fmt.Sprintf("%d.0.0", g))
		w.wantAll(all, agents, uint64(g+1), last) // while what came before is still under way
	}
	for _, d := range []*Dispatcher{one, two} {
		w.awaitSettled(d, generations, all, len(agents))
	}
	count := map[task.State]int{}
	for _, s := range w.replay(concurrency) {
		count[s]++
	}
	// A change that is superseded before a pass saw it has no task at all.
	if n := count[task.Succeeded] + count[task.Superseded]; n < len(all)*len(agents) || len(count) > 2 {
		t.Errorf("the tasks ended as %v, want each succeeded or superseded", count)
	}
	for _, s := range all {
		polltest.Eventually(t, "every entry is at the last image", func() bool {
			doc := w.document(s)
			for _, e := range doc.GetEntries() {
				if e.Image.GetId() != last.Id || e.TaskId != "" {
					return false
				}
			}
			return len(doc.GetEntries()) == len(agents)
		})
	}
	w.sameAsFolded(one, all...)
	w.sameAsFolded(two, all...)
}
