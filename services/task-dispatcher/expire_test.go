package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// checksDeadlines waits until a dispatcher has checked deadlines from the beginning.
func checksDeadlines(t *testing.T, d *Dispatcher) {
	t.Helper()
	end := d.deadlineChecks.Load() + 2 // one may be under way
	polltest.Eventually(t, "deadlines are checked", func() bool { return d.deadlineChecks.Load() >= end })
}

// Work that was done during a disconnect is reported after it, also when the disconnect fell between
// two checks of the connection.
func TestADeadlineThatPassedDuringADisconnectWaitsForReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var skew atomic.Int64
	d, _ := w.start(
		Config{TaskDeadline: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }})
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	task := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	skew.Add(int64(maxGrace)) // the grace period of the start is over
	checksDeadlines(t, d)
	w.bus.Restart(t, func(string) { skew.Add(int64(2 * time.Hour)) })
	checksDeadlines(t, d)
	w.report(s, task.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
}

func TestALateReportCompletesTheRecordOfAnExpiredTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var c clock
	key, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	d, _ := w.start(Config{Now: c.now, Secrets: key})
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	task := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	c.move(2 * DefaultTaskDeadline)
	w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_EXPIRED)
	w.report(s, task.Id, taskv1.State_STATE_UNDONE, &taskv1.Outcome{
		Code: "TIMED_OUT", FailedStep: taskv1.Step_STEP_PROVE, Reason: "it took too long", LogTail: "still loading",
	})
	var now *taskv1.Task
	polltest.Eventually(t, "the record is complete", func() bool {
		now = w.tasks(d, s)[0]
		return now.Reported == taskv1.State_STATE_UNDONE
	})
	if now.State != taskv1.State_STATE_EXPIRED || w.opened(now.Id, now) != "still loading" ||
		now.Reason != "its deadline passed while it was assigned; its server said later that it was undone" {
		t.Errorf("the task is %v", now)
	}
	w.report(s, task.Id, taskv1.State_STATE_SUCCEEDED, nil) // only the first report counts
	w.want(s, "other", 1, w.image("other", "1.0.0"))
	other := w.awaitTask(d, s, "other", 1, taskv1.State_STATE_ASSIGNED)
	w.report(s, other.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, s, "other", 1, taskv1.State_STATE_SUCCEEDED) // reports are handled in order
	again := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_EXPIRED)
	if again.Reported != taskv1.State_STATE_UNDONE {
		t.Errorf("the task is %v", again)
	}
}

func TestADispatcherWhoseClockIsAheadExpiresNothingEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, _ := w.start(Config{TaskDeadline: time.Hour})
	s := serverID(1)
	w.enrol(s)
	w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
	task := w.awaitTask(one, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	ahead := func() time.Time { return time.Now().Add(2 * time.Hour) }
	two, _ := w.start(Config{TaskDeadline: time.Millisecond, Now: ahead, wall: ahead}) // its grace period is as short
	polltest.Eventually(t, "it measured the clock of the bus", func() bool {
		two.clock.mu.Lock()
		defer two.clock.mu.Unlock()
		return two.clock.differs
	})
	checksDeadlines(t, two)
	w.report(s, task.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(one, s, "shipper", 1, taskv1.State_STATE_SUCCEEDED)
}

func TestATaskHasTheTimeThatItsImagesLimitsNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	slow := ident.From("test image", "slow")
	w.say(ledger.Image, slow, &imagev1.Created{Manifest: &imagev1.Manifest{Id: slow, Agent: "slow", Version: "1.0.0",
		Run: &imagev1.Run{Ready: &imagev1.Ready{TimeoutMs: 3600_000, SoakMs: 1_000}}}})
	w.say(ledger.Image, slow, &imagev1.Filled{})
	w.want(s, "slow", 1, &imagev1.Ref{Id: slow, Version: "1.0.0"})
	w.want(s, "plain", 1, w.image("plain", "1.0.0"))
	for agent, want := range map[string]time.Duration{
		"plain": DefaultTaskDeadline, "slow": DefaultTaskDeadline + time.Hour - 30*time.Second,
	} {
		task := w.awaitTask(d, s, agent, 1, taskv1.State_STATE_ASSIGNED)
		got := task.Deadline.AsTime().Sub(task.Since.AsTime())
		if (got - want).Abs() > 10*time.Second {
			t.Errorf("%s has %s, want %s", agent, got, want)
		}
	}
}
