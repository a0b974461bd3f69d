package engine

import (
	"os"
	"slices"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func impatient(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 200 }

func TestAnAgentThatIgnoresSIGTERMIsKilledWhenItIsReplacedAndWhenItIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "stubborn", impatient)))
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "stubborn", impatient))), taskv1.State_STATE_SUCCEEDED)
	if now := r.good("cn-agent", "2.0.0"); !slices.Equal(b.pids(), []int{int(now.GetPid())}) {
		t.Errorf("processes %v, want %d only", b.pids(), now.GetPid())
	}
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if left, pids := b.left(), b.pids(); len(left)+len(pids) != 0 {
		t.Errorf("left: %v, processes %v", left, pids)
	}
}

func TestAnAgentsChildrenGoWithItHoweverItEnds(t *testing.T) {
	t.Parallel()
	family := func(t *testing.T) (*workbench, *running) {
		b := newBench(t)
		r := b.run()
		r.do(b.want(b.image("cn-agent", "1.0.0", "family", impatient)))
		b.eventually("there are four", func() bool { return len(b.pids()) == 4 })
		return b, r
	}
	t.Run("replaced", func(t *testing.T) {
		b, r := family(t)
		outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
		r.good("cn-agent", "2.0.0")
		b.eventually("one is left", func() bool { return len(b.pids()) == 1 })
	})
	t.Run("removed", func(t *testing.T) {
		b, r := family(t)
		outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
		b.eventually("none is left", func() bool { return len(b.pids()) == 0 })
	})
	t.Run("killed", func(t *testing.T) {
		b, r := family(t)
		before := b.pids()
		p, _ := os.FindProcess(int(r.the("cn-agent").GetPid()))
		_ = p.Kill()
		b.eventually("there are four others", func() bool {
			now := b.pids()
			return len(now) == 4 &&
				!slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
		})
	})
}

// What parts from an agent as daemons do, by two sessions of its own, is the agent's still.
func TestWhatLeftAnAgentsSessionGoesWithItHoweverItEnds(t *testing.T) {
	t.Parallel()
	daemon := func(t *testing.T) (*workbench, *running) {
		b := newBench(t)
		r := b.run()
		outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "daemon", impatient))), taskv1.State_STATE_SUCCEEDED)
		b.eventually("there are two", func() bool { return len(b.pids()) == 2 })
		return b, r
	}
	t.Run("replaced", func(t *testing.T) {
		b, r := daemon(t)
		outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
		if now := r.good("cn-agent", "2.0.0"); !slices.Equal(b.pids(), []int{int(now.GetPid())}) {
			t.Errorf("processes %v, want %d only", b.pids(), now.GetPid())
		}
	})
	t.Run("removed", func(t *testing.T) {
		b, r := daemon(t)
		outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
		if left, pids := b.left(), b.pids(); len(left)+len(pids) != 0 {
			t.Errorf("left: %v, processes %v", left, pids)
		}
	})
	t.Run("killed", func(t *testing.T) {
		b, r := daemon(t)
		before := b.pids()
		p, _ := os.FindProcess(int(r.the("cn-agent").GetPid()))
		_ = p.Kill()
		b.eventually("there are two others", func() bool {
			now := b.pids()
			return len(now) == 2 &&
				!slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) })
		})
	})
	t.Run("removed by another executor", func(t *testing.T) {
		b, r := daemon(t)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = b.run()
		outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
		if pids := b.pids(); len(pids) != 0 {
			t.Errorf("processes %v are left", pids)
		}
	})
}

// The agent writes 64 MB/s, the bound is 64 kB, and the file is looked at every 50 ms.
func TestTheOutputOfAnAgentThatFloodsItIsBoundedAlsoBeforeItIsProven(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	task := b.want(
		b.image("cn-agent", "1.0.0", "flood", impatient, func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 700 }))
	r.offer()
	var largest int64
	r.eventually("it is proven", func() bool {
		for _, name := range []string{r.root.Output("cn-agent"), r.root.Output("cn-agent") + ".1"} {
			if info, err := os.Stat(name); err == nil {
				largest = max(largest, info.Size())
			}
		}
		return r.endedTask(task) != nil
	})
	if _, err := os.Stat(r.root.Output("cn-agent") + ".1"); err != nil || largest > 24<<20 {
		t.Errorf("the output had %d bytes: %v", largest, err)
	}
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
}

func TestACorruptedChunkIsRefusedAndTheOldVersionStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	old := r.good("cn-agent", "1.0.0").GetPid()
	m := b.image("cn-agent", "2.0.0", "ready")
	path := b.shelf.Chunk(m.GetBlob().GetDigest(), 1)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	o := outcome(t, r.do(b.want(m)), taskv1.State_STATE_UNDONE)
	if o.GetCode() != "WRONG_DIGEST" || o.GetFailedStep() != taskv1.Step_STEP_VERIFY {
		t.Errorf("outcome %v", o)
	}
	b.staysAlone(r, old)
}

// staysAlone asserts that the old version runs on, untouched, and that nothing else is on the disk.
func (b *workbench) staysAlone(r *running, pid uint32) {
	b.t.Helper()
	if now := r.good("cn-agent", "1.0.0"); now.GetPid() != pid || !slices.Equal(b.pids(), []int{int(pid)}) {
		b.t.Errorf("pid was %d and is %d, processes %v", pid, now.GetPid(), b.pids())
	}
	for dir, want := range map[string]int{b.root.Images(): 1, b.root.Cache(): 0} {
		if entries, _ := os.ReadDir(dir); len(entries) != want {
			b.t.Errorf("%s has %v, want %d", dir, entries, want)
		}
	}
}
