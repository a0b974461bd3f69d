package engine

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func sectionsOf(root layout.Root) busy.Sections { return busy.Sections{Root: root, Boot: "boot"} }

// busyFor begins a critical section.
func (b *workbench) busyFor(name string, d time.Duration) {
	b.t.Helper()
	now := time.Now()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	if _, err := sectionsOf(b.root).Begin(ctx, busy.Section{Name: name, Since: now, Until: now.Add(d)}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *workbench) notBusy(name string) {
	b.t.Helper()
	if lasted, err := sectionsOf(b.root).End(name); err != nil || !lasted {
		b.t.Fatalf("section %s lasted: %v: %v", name, lasted, err)
	}
}

// deferrals returns what was reported of the waits of a task.
func (r *running) deferrals(task string) (out []*taskv1.Deferral) {
	for _, rep := range r.reports() {
		if d := rep.GetTask().GetDeferral(); d != nil && rep.GetTask().TaskId == task {
			out = append(out, d)
		}
	}
	return out
}

// deferred waits until the wait of a task is reported.
func (r *running) deferred(task string) *taskv1.Deferral {
	r.t.Helper()
	r.eventually("the change is deferred", func() bool { return len(r.deferrals(task)) > 0 })
	return r.deferrals(task)[0]
}

func TestACriticalSectionDefersASwitchAndNotTheFetch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	b.busyFor("backup", time.Hour)
	next := b.image("cn-agent", "2.0.0", "ready")
	task := b.want(next)
	deadline := time.Now().Add(time.Hour)
	b.doc.Entries[0].Deadline = timestamppb.New(deadline)
	r.offer()
	d := r.deferred(task)
	if d.Code != code.CriticalSection || !strings.Contains(d.Reason, "backup") || d.ResumedAt != nil {
		t.Errorf("deferral %v", d)
	}
	if !there(b.root.Image(next.Blob.Digest)) {
		t.Error("its image is not staged while it waits")
	}
	r.good("cn-agent", "1.0.0")
	if is, err := r.Status(); err != nil || is.Steps["cn-agent"] != taskv1.Step_STEP_DEFER || len(is.Busy) != 1 {
		t.Errorf("status %v: %v", is, err)
	}
	b.notBusy("backup")
	outcome(t, r.wait(task), good)
	r.good("cn-agent", "2.0.0")
	if all := r.deferrals(task); len(all) != 2 || all[1].ResumedAt == nil || all[1].Overrun {
		t.Errorf("reported %v, want a wait and its end", all)
	}
}

func TestAChangeGoesOnWhenItsLimitPassesWhateverLasts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.doc.BusyLimit = durationpb.New(2 * time.Second)
	b.busyFor("stuck", time.Hour)
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	outcome(t, r.do(task), good)
	all := r.deferrals(task)
	if len(all) != 2 || !all[1].Overrun {
		t.Errorf("reported %v, want that the limit passed", all)
	}
}

func TestADeferredRemovalOutlivesItsExecutorAndItsAgentRunsOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	b.busyFor("backup", time.Hour)
	task := b.unwant("cn-agent", instanceOf("cn-agent"))
	r.offer()
	until := r.deferred(task).GetUntil().AsTime()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	r.eventually("the agent runs", func() bool {
		return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD
	})
	r.acknowledgeAll()
	r.offer()
	if again := r.deferred(task).GetUntil().AsTime(); !again.Equal(until) {
		t.Errorf("after a restart it waits until %s, want %s", again, until)
	}
	b.notBusy("backup")
	outcome(t, r.wait(task), good)
}

func TestASectionEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	sleep := exec.Command("sleep", "600")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill() }()
	now := time.Now()
	x := busy.Section{Name: "backup", Since: now, Until: now.Add(time.Hour)}
	if !x.Of(sleep.Process.Pid, "boot") {
		t.Fatal("it does not run")
	}
	if _, err := sectionsOf(b.root).Begin(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	task := b.want(b.image("cn-agent", "2.0.0", "ready"))
	r.offer()
	r.deferred(task)
	_ = sleep.Process.Kill()
	_ = sleep.Wait()
	outcome(t, r.wait(task), good)
}

func TestDeferredChangesLeaveRoomForTheNextToBeFetched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.busyFor("backup", time.Hour)
	tasks := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		tasks[name] = b.want(b.image(name, "1.0.0", "ready"))
	}
	r.offer()
	for _, task := range tasks {
		r.deferred(task)
	}
	b.notBusy("backup")
	for _, task := range tasks {
		outcome(t, r.wait(task), good)
	}
}

// A section that began in the middle of a switch would protect nothing.
func TestASectionBeginsAfterTheSwitchThatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	r := b.run(at("begin switch", func() bool { close(began); <-goOn; return true }))
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	r.offer()
	<-began
	now := time.Now()
	x := busy.Section{Name: "backup", Since: now, Until: now.Add(time.Hour)}
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := sectionsOf(b.root).Begin(soon, x); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("it began during the switch: %v", err)
	}
	close(goOn)
	outcome(t, r.wait(task), good)
	b.busyFor("backup", time.Hour)
}

func TestChangesThatGoOnTogetherWaitForAPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var switching atomic.Int64
	goOn := make(chan struct{})
	r := b.run(func(c *Config) {
		c.FailPoint = func(p string) {
			if p == "begin switch" {
				switching.Add(1)
				<-goOn
			}
		}
	})
	b.busyFor("backup", time.Hour)
	var tasks []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		tasks = append(tasks, b.want(b.image(name, "1.0.0", "ready")))
	}
	r.offer()
	for _, task := range tasks {
		r.deferred(task)
	}
	b.notBusy("backup")
	r.eventually("changes go on, and the others found no place", func() bool {
		d := r.rooms.deferrals
		d.mu.Lock()
		defer d.mu.Unlock()
		return switching.Load() >= Parallel && len(d.without) == len(tasks)-Parallel
	})
	if n := switching.Load(); n != Parallel {
		t.Errorf("%d changes run at once, want %d", n, Parallel)
	}
	close(goOn)
	for _, task := range tasks {
		outcome(t, r.wait(task), good)
	}
}

// The dispatcher would show a task that switches as one that waits.
func TestAWaitThatEndedWhileTheExecutorWasAwayIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.busyFor("backup", time.Hour)
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	r.offer()
	r.deferred(task)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.notBusy("backup")
	r = b.run()
	r.offer()
	outcome(t, r.wait(task), good)
	all := r.deferrals(task)
	if n := len(all); n == 0 || all[n-1].ResumedAt == nil || all[n-1].Overrun {
		t.Errorf("reported %v, want that it goes on", all)
	}
}

func TestAClockThatWasSetBackMakesNoWaitLonger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	b.busyFor("backup", time.Hour)
	task := b.want(b.image("cn-agent", "1.0.0", "ready"))
	r.offer()
	r.deferred(task)
	const note = "deferred/cn-agent"
	err := r.j.Update(func(tx *journal.Tx) error {
		id, _, _ := strings.Cut(tx.Note(note), " ")
		return tx.SetNote(note, id+" "+time.Now().Add(1000*time.Hour).Format(time.RFC3339Nano))
	})
	if err = errors.Join(err, r.stop()); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	r.acknowledgeAll()
	r.offer()
	if left := time.Until(r.deferred(task).GetUntil().AsTime()); left > deadline.Busy {
		t.Errorf("it waits %s more, want %s at most", left, deadline.Busy)
	}
}
