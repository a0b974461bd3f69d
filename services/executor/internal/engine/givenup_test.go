package engine

import (
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// giveUp names a task in the document as one that is no longer wanted.
func (r *running) giveUp(task string) {
	r.doc.Generation++
	r.doc.UnwantedTaskIds = []string{task}
	r.offer()
}

func TestADeferredChangeThatIsNotWantedAnyMoreIsGivenUpAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	first := b.image("cn-agent", "1.0.0", "ready")
	outcome(t, r.do(b.want(first)), good)
	pid := r.good("cn-agent", "1.0.0").Pid
	b.busyFor("backup", time.Hour)
	task := b.want(b.image("cn-agent", "2.0.0", "ready"))
	r.offer()
	r.deferred(task)
	r.giveUp(task)
	if o := outcome(t, r.wait(task), undone); o.Code != code.GivenUp || o.FailedStep != taskv1.Step_STEP_DEFER {
		t.Errorf("outcome %v", o)
	}
	// What is wanted instead is what runs: it waits for nothing either, and nothing is restarted.
	back := b.want(first)
	b.doc.Entries[0].Verb = taskv1.Verb_VERB_UPGRADE
	outcome(t, r.do(back), good)
	if all := r.deferrals(back); len(all) > 0 {
		t.Errorf("a change that touches nothing is deferred: %v", all)
	}
	if found := r.good("cn-agent", "1.0.0"); found.Pid != pid || found.Generation != b.doc.Generation {
		t.Errorf("process %d runs at generation %d, want %d at %d", found.Pid, found.Generation, pid, b.doc.Generation)
	}
	next := b.want(b.image("cn-agent", "3.0.0", "ready"))
	r.offer()
	r.deferred(next)
	b.notBusy("backup")
	outcome(t, r.wait(next), good)
}

func TestADeferredRemovalThatIsNotWantedAnyMoreLeavesTheAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	pid := r.good("cn-agent", "1.0.0").Pid
	b.busyFor("backup", time.Hour)
	task := b.unwant("cn-agent", instanceOf("cn-agent"))
	r.offer()
	r.deferred(task)
	r.giveUp(task)
	if o := outcome(t, r.wait(task), undone); o.Code != code.GivenUp {
		t.Errorf("outcome %v", o)
	}
	if now := r.good("cn-agent", "1.0.0").Pid; now != pid {
		t.Errorf("process %d runs, want %d", now, pid)
	}
}

// The executor that comes back finds the task in the document, and does not wait first.
func TestAChangeThatIsNotWantedAnyMoreIsGivenUpAfterARestart(t *testing.T) {
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
	r = b.run()
	r.giveUp(task)
	if o := outcome(t, r.wait(task), undone); o.Code != code.GivenUp {
		t.Errorf("outcome %v", o)
	}
	if left := b.pids(); len(left) > 0 {
		t.Errorf("processes %v run", left)
	}
}
