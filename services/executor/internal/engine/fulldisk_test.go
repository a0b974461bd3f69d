package engine

import (
	"errors"
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
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	case <-time.After(time.Minute):
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

func TestAChangeWithoutFreeFilesIsRefusedByTheirNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.smallDisk("64m,nr_inodes=500")
	r := b.run()
	image := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(image))
	old := r.good("cn-agent", "1.0.0").GetPid()
	for n := 0; ; n++ {
		if f, err := os.Create(hogPath(b.root) + strconv.Itoa(n)); layout.Full(err) {
			break
		} else if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	// It brings no image.
	o := outcome(t, r.do(b.wantWith(image, taskv1.Verb_VERB_CONFIGURE, map[string]string{"a": "b"})),
		taskv1.State_STATE_UNDONE)
	if o.GetCode() != code.NoSpace || o.GetFailedStep() != taskv1.Step_STEP_RESERVE ||
		!strings.Contains(o.GetReason(), "needs 64 files; 0 more can be made") {
		t.Errorf("outcome %v", o)
	}
	if now := r.good("cn-agent", "1.0.0").GetPid(); now != old {
		t.Errorf("pid was %d and is %d", old, now)
	}
}
