package engine

import (
	"os"
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// resets returns for which reinstall the journal says that the server was emptied.
func (r *running) resets() (id string) {
	r.t.Helper()
	err := r.j.Read(func(tx *journal.Tx) error { id = tx.Note(journal.NoteEmptied); return nil })
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// reset puts a reinstall into the document: first with the removals, then with nothing.
func (b *workbench) reset(id string) {
	b.doc.Generation++
	b.doc.ResetId, b.doc.Entries, b.doc.Removals = id, nil, nil
}

// emptied asserts that nothing of agents is left, and that the executor knows for which reinstall.
func (r *running) emptied(id string) {
	r.t.Helper()
	r.eventually("it is empty", func() bool { return r.resets() == id })
	if left := r.left(); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
	if pids := r.pids(); len(pids) > 0 {
		r.t.Errorf("still running: %v", pids)
	}
}

func TestAReinstalledServerKeepsNothingOfItsAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED) // 1.0.0 is kept
	b.doc.ResetId = "first"
	task := b.unwant("cn-agent", instanceOf("cn-agent"))
	outcome(t, r.do(task), taskv1.State_STATE_SUCCEEDED)
	if have := r.resets(); have != "" {
		t.Errorf("emptied for %q while its document still lists a removal", have)
	}
	b.reset("first")
	r.offer()
	r.emptied("first")

	// It ends with the document that names no reinstall, and another one begins anew.
	b.reset("")
	r.offer()
	r.eventually("the note is gone", func() bool { return r.resets() == "" })
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "1.0.0")
}

func TestAServerWithAnAgentLeftIsNotEmptied(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	b.reset("early") // no removal came, and absence removes nothing
	r.offer()
	r.eventually("the document is taken", func() bool {
		var applied uint64
		_ = r.j.Read(func(tx *journal.Tx) error { applied = tx.Applied(); return nil })
		return applied == b.doc.Generation
	})
	r.good("cn-agent", "1.0.0")
	if have := r.resets(); have != "" {
		t.Errorf("emptied for %q although an agent runs", have)
	}
}

func TestAnExecutorKilledWhileItIsEmptiedGoesOnAfterItsStart(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"recovered", "reset trash", "reset kept", "reset swept", "reset noted"} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
			outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
			outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			b.reset("id")
			killed := child{Root: b.root, Shelf: b.shelf, Document: b.write(), KillAt: point}.start(t)
			if err := killed.Wait(); err == nil {
				t.Fatal("it was not killed")
			}
			r = b.run()
			r.offer()
			r.emptied("id")
		})
	}
}

// A machine that was set up anew has nothing to remove, and answers all the same.
func TestAMachineThatLostItsJournalAnswersAReinstall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.reset("id")
	r := b.run()
	r.offer()
	r.emptied("id")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.root.Home()); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	r.offer()
	r.emptied("id")
}
