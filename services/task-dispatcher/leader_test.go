package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

// patient is longer than any test moves the clock: a dispatcher with it takes over only at its start.
const patient = 1000 * time.Hour

// clock is a dispatcher's clock that a test can advance.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time       { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) move(d time.Duration) { c.ahead.Add(int64(d)) }

// claimants returns the processes of all claims, in order.
func (w *world) claimants() []string {
	w.t.Helper()
	var out []string
	for _, f := range w.ledgerFacts() {
		if c, ok := f.Body.(*taskv1.Claimed); ok {
			out = append(out, c.ProcessId)
		}
	}
	return out
}

// stealClaim claims admission for a process that does nothing with it, and waits until a dispatcher sees it.
func (w *world) stealClaim(d *Dispatcher) {
	w.t.Helper()
	seq := w.say(ledger.Task, view.ClaimKey, &taskv1.Claimed{ProcessId: "another"})
	if err := d.follower.Wait(w.t.Context(), seq); err != nil {
		w.t.Fatal(err)
	}
}

// movedUnder counts the tasks that were opened, or left the queue, while a process had the last claim.
func (w *world) movedUnder(process string) (n int) {
	w.t.Helper()
	holder, queued := "", map[string]bool{}
	for _, f := range w.ledgerFacts() {
		switch b := f.Body.(type) {
		case *taskv1.Claimed:
			holder = b.ProcessId
		case *taskv1.Queued:
			queued[f.Key] = true
			if holder == process {
				n++
			}
		default:
			if _, opens := b.(*taskv1.Assigned); opens {
				queued[f.Key] = true
			}
			if queued[f.Key] && f.Noun == ledger.Task {
				delete(queued, f.Key)
				if holder == process {
					n++
				}
			}
		}
	}
	return n
}

func TestTheFirstAdmissionClaims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{TakeOverAfter: patient})
	w.enrol(serverID(1))
	if got := w.claimants(); len(got) > 0 {
		t.Errorf("claimed by %v with nothing to admit", got)
	}
	w.want(serverID(1), "shipper", 1, w.image("shipper", "1.0.0"))
	w.awaitTask(d, serverID(1), "shipper", 1, taskv1.State_STATE_ASSIGNED)
	if diff := cmp.Diff([]string{d.leader.process}, w.claimants()); diff != "" {
		t.Errorf("claims (-want +have):\n%s", diff)
	}
}

func TestARestartedDispatcherTakesOverAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := t.TempDir()
	w.enrol(serverID(1))
	img := w.image("shipper", "1.0.0")
	before, stop := w.start(Config{TakeOverAfter: patient, Store: store})
	w.want(serverID(1), "one", 1, img)
	w.awaitTask(before, serverID(1), "one", 1, taskv1.State_STATE_ASSIGNED)
	stop()
	after, _ := w.start(Config{TakeOverAfter: patient, Store: store})
	w.want(serverID(1), "two", 1, img)
	w.awaitTask(after, serverID(1), "two", 1, taskv1.State_STATE_ASSIGNED)
	if diff := cmp.Diff([]string{before.leader.process, after.leader.process}, w.claimants()); diff != "" {
		t.Errorf("claims (-want +have):\n%s", diff)
	}
}

func TestADispatcherTakesOverFromAStoppedOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enrol(serverID(1))
	img := w.image("shipper", "1.0.0")
	one, stop := w.start(Config{TakeOverAfter: patient})
	w.want(serverID(1), "one", 1, img)
	w.awaitTask(one, serverID(1), "one", 1, taskv1.State_STATE_ASSIGNED)
	two, _ := w.start(Config{TakeOverAfter: 50 * time.Millisecond})
	w.want(serverID(1), "two", 1, img) // so that the second sees the first at work, or takes over at once
	w.awaitTask(two, serverID(1), "two", 1, taskv1.State_STATE_ASSIGNED)
	stop()
	w.want(serverID(1), "three", 1, img)
	w.awaitTask(two, serverID(1), "three", 1, taskv1.State_STATE_ASSIGNED)
	if got := w.claimants(); got[len(got)-1] != two.leader.process {
		t.Errorf("claimed by %v, want %s in the end", got, two.leader.process)
	}
}

func TestNothingIsOpenedOrLeavesTheQueueWithoutTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	var c clock
	lost, _ := w.start(Config{TakeOverAfter: patient, Now: c.now, Concurrency: 1})
	w.want(s, "first", 1, img)
	w.awaitTask(lost, s, "first", 1, taskv1.State_STATE_ASSIGNED)
	w.want(s, "waits", 1, img)
	w.want(s, "changes", 1, img)
	w.awaitTask(lost, s, "changes", 1, taskv1.State_STATE_QUEUED)
	w.stealClaim(lost)
	w.want(s, "changes", 2, img)
	c.move(2 * DefaultQueuedDeadline)
	w.awaitTask(lost, s, "first", 1, taskv1.State_STATE_EXPIRED) // what is under way needs no claim
	polltest.Eventually(t, "a task is overdue that the dispatcher must not end", lost.leader.overdue.Load)

	next, _ := w.start(Config{TakeOverAfter: patient})
	w.awaitTask(next, s, "changes", 1, taskv1.State_STATE_SUPERSEDED)
	polltest.Eventually(t, "the others left the queue", func() bool {
		for _, x := range w.tasks(next, s) {
			if x.State == taskv1.State_STATE_QUEUED {
				return false
			}
		}
		return true
	})
	if n := w.movedUnder("another"); n > 0 {
		t.Errorf("%d tasks were opened or left the queue under another process's claim", n)
	}
	if diff := cmp.Diff([]string{lost.leader.process, "another", next.leader.process}, w.claimants()); diff != "" {
		t.Errorf("claims (-want +have):\n%s", diff)
	}
}

func TestACancellationIsRecordedUnderTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{TakeOverAfter: patient})
	s := serverID(1)
	w.enrol(s)
	w.say(ledger.Server, s, &serverv1.Offline{})
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	queued := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_QUEUED)
	w.stealClaim(d)
	got, err := call[*dispatcherv1.CancelTaskResponse](w, "CancelTask",
		&dispatcherv1.CancelTaskRequest{Task: queued.Id})
	if err != nil || got.Task.State != taskv1.State_STATE_CANCELLED {
		t.Fatalf("cancelled: %v, %v", got, err)
	}
	if diff := cmp.Diff([]string{d.leader.process, "another", d.leader.process}, w.claimants()); diff != "" {
		t.Errorf("claims (-want +have):\n%s", diff)
	}
}

func TestAClaimInDoubtIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{TakeOverAfter: patient})
	s := serverID(1)
	w.enrol(s)
	img := w.image("shipper", "1.0.0")
	w.want(s, "one", 1, img)
	w.awaitTask(d, s, "one", 1, taskv1.State_STATE_ASSIGNED)
	// as after an answer that never came
	d.follower.Read(func() { raise(&d.leader.doubted, d.view.Rows.Claim().Sequence) })
	w.want(s, "two", 1, img)
	w.awaitTask(d, s, "two", 1, taskv1.State_STATE_ASSIGNED)
	if diff := cmp.Diff([]string{d.leader.process, d.leader.process}, w.claimants()); diff != "" {
		t.Errorf("claims (-want +have):\n%s", diff)
	}
}

func TestTwoDispatchersDoNotFightForTheClaim(t *testing.T) {
	t.Parallel()
	const concurrency = 10
	w := newWorld(t)
	all, agents := servers(50), []string{"a", "b", "c", "d", "e", "f"}
	w.enrol(all...)
	w.execute(nil)
	img := w.image("any", "1.0.0")
	one, _ := w.start(Config{Concurrency: concurrency})
	two, _ := w.start(Config{Concurrency: concurrency})
	began := time.Now()
	w.wantAll(all, agents, 1, img)
	w.awaitEnds(one, len(all)*len(agents))
	w.awaitEnds(two, len(all)*len(agents))
	// One that fights claims for each task. One that does not claims after a second without progress, which a busy
	// machine brings about more often.
	most := 3 + int(time.Since(began)/(5*time.Second))
	if ended := w.replay(concurrency); len(ended) != len(all)*len(agents) {
		t.Errorf("%d tasks ended, want %d", len(ended), len(all)*len(agents))
	}
	if got := w.claimants(); len(got) > most {
		t.Errorf("%d claims, want at most %d: %v", len(got), most, got)
	}
}

func TestAFailedRemovalIsRetriedWhenItsServerIsBack(t *testing.T) {
	t.Parallel()
	for _, how := range []taskv1.State{taskv1.State_STATE_FAILED, taskv1.State_STATE_EXPIRED} {
		t.Run(string(task.StateOf(how)), func(t *testing.T) {
			w := newWorld(t)
			var c clock
			d, _ := w.start(Config{Now: c.now})
			s := serverID(1)
			w.enrol(s)
			w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
			installed := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
			w.report(s, installed.Id, taskv1.State_STATE_SUCCEEDED, nil)
			w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
			w.unwant(s, "shipper", 2)
			first := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_ASSIGNED)
			if how == taskv1.State_STATE_FAILED {
				w.report(s, first.Id, how, &taskv1.Outcome{Reason: "the disk is read-only"})
			} else {
				c.move(2 * DefaultTaskDeadline)
			}
			w.awaitTask(d, s, "shipper", 2, how)
			polltest.Eventually(t, "the removal stays in the document, without a task", func() bool {
				r := w.document(s).GetRemovals()
				return len(r) == 1 && r[0].TaskId == ""
			})

			w.say(ledger.Server, s, &serverv1.Offline{})
			w.say(ledger.Server, s, &serverv1.Online{BootId: "c"})
			second := w.awaitTask(d, s, "shipper", 2, taskv1.State_STATE_ASSIGNED)
			if second.Id != opening.InstanceID(instanceID(s, "shipper"), 2, 2, 1) || second.Attempt != 2 ||
				second.Verb != taskv1.Verb_VERB_REMOVE {
				t.Errorf("the second attempt is %v", second)
			}
			polltest.Eventually(t, "the removal names the new task", func() bool {
				r := w.document(s).GetRemovals()
				return len(r) == 1 && r[0].TaskId == second.Id && r[0].InstanceId == instanceID(s, "shipper")
			})
			w.report(s, second.Id, taskv1.State_STATE_SUCCEEDED, nil)
			polltest.Eventually(t, "the removal is gone", func() bool { return len(w.document(s).GetRemovals()) == 0 })
		})
	}
}
