package engine

import (
	"bytes"
	"os"
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// forget takes an agent out of the inventory, as a journal that was lost has, with what was
// kept beside the agent unless that is to stay.
func (b *workbench) forget(agent string) {
	b.t.Helper()
	j, err := journal.Open(b.root.Journal())
	if err == nil {
		err = j.Update(func(tx *journal.Tx) error { return tx.DropInstance(agent) })
	}
	if err == nil {
		err = j.Close()
	}
	if err == nil {
		err = os.Remove(b.root.Installed(agent))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestARemovalOfWhatTheInventoryDoesNotKnowFailsWhileItIsHere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	pid := r.good("cn-agent", "1.0.0").GetPid()
	_ = r.stop()
	b.forget("cn-agent")
	r = b.run()
	o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.NotInInventory {
		t.Errorf("it failed with %s: %s", o.GetCode(), o.GetReason())
	}
	if pids := b.pids(); len(pids) != 1 || uint32(pids[0]) != pid {
		t.Errorf("processes %v run, want %d", pids, pid)
	}
	outcome(t, r.do(b.unwant("other", ident.New())), taskv1.State_STATE_SUCCEEDED) // which was never here
}

// unready takes out of a process's record that it was ever ready.
func unready(record string) error {
	data, err := os.ReadFile(record)
	if err != nil {
		return err
	}
	return os.WriteFile(record, bytes.Replace(data, []byte(`"ready":true`), []byte(`"ready":false`), 1), 0o600)
}

// With ready: notify it said READY=1 long ago, to another socket.
func TestAnAgentThatTheInventoryForgotIsTakenInAsReady(t *testing.T) {
	t.Parallel()
	if bySystemd() {
		t.Skip("systemd remembers READY=1 itself")
	}
	for name, c := range map[string]struct {
		spoil func(record string) error
		same  bool
	}{
		"known to have been ready":     {func(string) error { return nil }, true},
		"not known to have been ready": {unready, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.run()
			m := b.image("cn-agent", "1.0.0", "ready")
			r.do(b.want(m))
			pid := r.good("cn-agent", "1.0.0").GetPid()
			record := r.rooms.specs.RecordPath(agent.Version{Agent: "cn-agent", Image: change.Manifest{Manifest: m}})
			_ = r.stop()
			b.forget("cn-agent")
			if err := c.spoil(record); err != nil {
				t.Fatal(err)
			}
			r = b.run()
			outcome(t, r.do(b.want(m)), taskv1.State_STATE_SUCCEEDED)
			if now := r.good("cn-agent", "1.0.0").GetPid(); (now == pid) != c.same || len(b.pids()) != 1 {
				t.Errorf("the agent was %d and is %d, of %v", pid, now, b.pids())
			}
		})
	}
}
