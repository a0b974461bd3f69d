package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/crashtest/powercut"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func impatient(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 200 }

func TestAnAgentThatIgnoresSIGTERMIsKilledWhenItIsReplacedAndWhenItIsRemoved(t *testing.T) {
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

// smallDisk puts the bench's root on a file system of its own.
func (b *workbench) smallDisk(size string) {
	b.t.Helper()
	if os.Geteuid() != 0 {
		b.t.Skip("only root may mount")
	}
	mount := b.t.TempDir()
	if err := unix.Mount("garrison", mount, "tmpfs", 0, "size="+size); err != nil {
		b.t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	b.t.Cleanup(func() {
		b.endAgents()
		if err := powercut.Unmount(mount); err != nil {
			b.t.Error(err)
		}
	})
	b.root = layout.Root(filepath.Join(mount, "root"))
}

// hog takes all the space that is left on a disk, once it is armed and a point is reached.
type hog struct {
	t     *testing.T
	path  string
	at    string
	armed atomic.Bool
}

func (b *workbench) hog(at string) *hog {
	return &hog{t: b.t, path: hogPath(b.root), at: at}
}

// point is a FailPoint.
func (h *hog) point(p string) {
	if p == h.at && h.armed.CompareAndSwap(true, false) {
		h.take()
	}
}

func (h *hog) take() {
	if err := fillDisk(h.path); err != nil {
		h.t.Error(err)
	}
}

func hogPath(root layout.Root) string { return filepath.Join(filepath.Dir(string(root)), "hog") }

// fillDisk takes all the space that is left on a disk.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return f.Close()
}

func (h *hog) giveBack() { _ = os.Remove(h.path) }

// What a change needs is reserved before it begins, so a disk that fills up later does not stop it.
func TestADiskThatFillsUpLaterDoesNotStopAChangeThatReservedItsRoom(t *testing.T) {
	for _, point := range []string{"begin fetch", "begin verify", "begin stage", "begin rehearse"} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t)
			b.smallDisk("64m")
			h := b.hog(point)
			r := b.run(func(c *Config) { c.FailPoint = h.point })
			r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
			h.armed.Store(true)
			o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
			if h.armed.Load() {
				t.Errorf("the disk was never full: %v", o)
			}
			now := r.good("cn-agent", "2.0.0")
			if !slices.Equal(b.pids(), []int{int(now.GetPid())}) {
				t.Errorf("processes %v", b.pids())
			}
		})
	}
}

func TestAChangeOnAFullDiskIsRefusedAndTheOldVersionStays(t *testing.T) {
	for _, keep := range []int{0, 1} { // 1: the way back to a version that is on the disk needs room too
		t.Run(strconv.Itoa(keep), func(t *testing.T) {
			b := newBench(t)
			b.smallDisk("64m")
			h := b.hog("begin check")
			r := b.run(func(c *Config) { c.FailPoint, c.Keep = h.point, Keep{Versions: keep, Bytes: 1 << 30} })
			next := b.image("cn-agent", "2.0.0", "ready")
			if keep > 0 {
				r.do(b.want(next))
			}
			r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
			old := r.good("cn-agent", "1.0.0").GetPid()
			h.armed.Store(true)
			o := outcome(t, r.do(b.want(next)), taskv1.State_STATE_UNDONE)
			if o.GetCode() != code.NoSpace || o.GetFailedStep() != taskv1.Step_STEP_RESERVE {
				t.Errorf("outcome %v, want %s in the reserve", o, code.NoSpace)
			}
			if now := r.good("cn-agent", "1.0.0"); now.GetPid() != old || !slices.Equal(b.pids(), []int{int(old)}) {
				t.Errorf("pid was %d and is %d, processes %v", old, now.GetPid(), b.pids())
			}
			h.giveBack()
			outcome(t, r.do(b.want(next)), taskv1.State_STATE_SUCCEEDED)
			r.good("cn-agent", "2.0.0")
		})
	}
}

// When the old version was stopped already, nothing can be started on a full disk, for a
// process is written down before it exists. What the new version takes up is the space
// for the old one.
func TestADiskThatFillsUpInTheSwitchHasSpaceForTheOldVersionInTheUndo(t *testing.T) {
	if bySystemd() {
		t.Skip("systemd writes nothing to this disk, so the change works")
	}
	b := newBench(t)
	b.smallDisk("64m")
	h := b.hog("old stopped")
	r := b.run(func(c *Config) {
		p := testPolicy
		p.CrashLoop = 1000 // it is tried again and again
		c.Supervisor = testSupervisor(c.Root, p)
		c.FailPoint = h.point
	})
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	h.armed.Store(true)
	o := outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.NoSpace || o.GetFailedStep() != taskv1.Step_STEP_SWITCH {
		t.Errorf("outcome %v", o)
	}
	r.good("cn-agent", "1.0.0")
}

// The record of a process that ended has room for the record of the next one.
func TestAnAgentThatEndsOnAFullDiskIsStartedAgainAndTakenOverLater(t *testing.T) {
	b := newBench(t)
	b.smallDisk("64m")
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	b.hog("").take()
	for range 2 { // not so often that it keeps ending
		was := int(r.good("cn-agent", "1.0.0").GetPid())
		if err := unix.Kill(was, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.eventually("it is started again", func() bool {
			f := r.the("cn-agent")
			return f.GetHealth() == instancev1.Health_HEALTH_GOOD && int(f.GetPid()) != was
		})
	}
	now := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	<-r.Ready()
	if again := r.good("cn-agent", "1.0.0").GetPid(); again != now || !slices.Equal(b.pids(), []int{int(now)}) {
		t.Errorf("pid was %d and is %d, processes %v", now, again, b.pids())
	}
}

func TestTheJournalIsWrittenAlsoOnAFullDisk(t *testing.T) {
	b := newBench(t)
	b.smallDisk("64m")
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	b.hog("").take()
	for n := range 20 {
		err := r.j.Update(
			func(tx *journal.Tx) error { return tx.SetNote(strconv.Itoa(n), strings.Repeat("x", 50<<10)) })
		if err != nil {
			t.Fatalf("after %d notes: %v", n, err)
		}
	}
}

func TestADiskThatTurnsReadOnlyEndsTheExecutorAndLeavesTheAgentAlone(t *testing.T) {
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	b := newBench(t)
	d := powercut.New(t, diskSize)
	b.root = layout.Root(filepath.Join(d.Mount, "root"))
	d.Before = b.endAgents
	r := b.run()
	r.do(b.want(b.image("cn-agent", "1.0.0", "ready")))
	old := r.good("cn-agent", "1.0.0").GetPid()
	if err := turnReadOnly(d); err != nil {
		t.Skip(err)
	}
	ended := make(chan error, 1)
	b.want(b.image("cn-agent", "2.0.0", "ready"))
	r.offer()
	go func() { ended <- r.stopped() }()
	select {
	case err := <-ended:
		if err == nil ||
			!strings.Contains(err.Error(), "read-only") && !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on without a journal")
	}
	if !slices.Equal(b.pids(), []int{int(old)}) {
		t.Errorf("processes %v, want %d only", b.pids(), old)
	}
	_ = r.j.Close()
	if j, err := journal.Open(r.root.Journal()); err == nil {
		_ = j.Close()
		t.Error("it starts on a read-only disk")
	}
}

// turnReadOnly lets the file system find an error in itself, upon which it takes no more writes.
func turnReadOnly(d *powercut.Disk) error {
	if err := powercut.Command("mount", "-o", "remount,errors=remount-ro", d.Mount); err != nil {
		return err
	}
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", d.Mount).Output()
	if err != nil {
		return fmt.Errorf("find the device of %s: %w", d.Mount, err)
	}
	return os.WriteFile(
		filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error"),
		[]byte("1"), 0o200)
}
