package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// A slow disk takes 2 MB and 100 writes in a second: a worn SD card, or a volume that used
// up its credit. It is busy with an image of the test agent for some 2 s.
const (
	slowBytes  = 2 << 20
	slowWrites = 100
)

// throttles are the files of the root group of cgroup v1's blkio. It is the root's because
// the kernel's own threads are in it, which write most of what a file system writes. A
// rule is for one device, so no other disk gets slower.
const throttles = "/sys/fs/cgroup/blkio/blkio.throttle.write_"

// throttle lets a disk take so many bytes and so many writes in a second; 0 means without bound.
func throttle(d *powercut.Disk, bytes, writes int) error {
	var at unix.Stat_t
	if err := unix.Stat(d.Mount, &at); err != nil {
		return fmt.Errorf("stat %s: %w", d.Mount, err)
	}
	device := fmt.Sprintf("%d:%d ", unix.Major(at.Dev), unix.Minor(at.Dev))
	return errors.Join(
		os.WriteFile(throttles+"bps_device", fmt.Append(nil, device, bytes), 0o200),
		os.WriteFile(throttles+"iops_device", fmt.Append(nil, device, writes), 0o200))
}

// timeOf measures how long it takes until so many bytes are on the disk.
func timeOf(d *powercut.Disk, bytes int) (time.Duration, error) {
	f, err := os.Create(filepath.Join(d.Mount, "measure"))
	if err != nil {
		return 0, err
	}
	_, err = f.Write(make([]byte, bytes))
	began := time.Now()
	err = errors.Join(err, f.Sync())
	took := time.Since(began)
	return took, errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// slowChange is an upgrade from 1.0.0 to 2.0.0 of an agent beside which another one runs.
type slowChange struct {
	*running
	pid      uint32 // of 1.0.0
	upgrades atomic.Bool
	staging  atomic.Bool
	deadline time.Time
	oneDisk  bool               // the disk itself is slow, so whatever is written to it waits for the image
	removal  string             // the task that removes the other agent
	point    func(point string) // called at the upgrade's own points
}

// slowly installs both agents, while the disk is still as fast as it is.
func (b *workbench) slowly(point func(string)) *slowChange {
	b.t.Helper()
	s := &slowChange{point: point}
	s.running = b.run(func(c *Config) {
		c.FailPoint = func(p string) {
			if !s.upgrades.Load() {
				return
			}
			s.staging.CompareAndSwap(false, p == "begin stage")
			s.point(p)
		}
	})
	outcome(b.t, s.do(b.want(b.image("other-agent", "1.0.0", "ready"))), good)
	outcome(b.t, s.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	s.pid = s.good("cn-agent", "1.0.0").GetPid()
	return s
}

// upgrade does the upgrade within a time; meanwhile is done while it is being staged.
func (s *slowChange) upgrade(within time.Duration, meanwhile func(open func() bool)) *journal.Ended {
	s.t.Helper()
	task := s.want(s.image("cn-agent", "2.0.0", "ready"))
	s.deadline = time.Now().Add(within)
	s.doc.Entries[len(s.doc.Entries)-1].Deadline = timestamppb.New(s.deadline)
	s.staging.Store(false)
	s.upgrades.Store(true)
	defer s.upgrades.Store(false)
	s.offer()
	s.eventually("it is staged", s.staging.Load)
	if meanwhile != nil {
		meanwhile(func() bool { return s.endedTask(task) == nil })
	}
	return s.wait(task)
}

// removesOther takes a document that removes the other agent, and sees it followed. That
// is while the upgrade is open, unless the one disk makes its journal wait for the image.
func (s *slowChange) removesOther(open func() bool) {
	s.t.Helper()
	other := int(s.the("other-agent").GetPid())
	began := time.Now()
	s.removal = s.unwant("other-agent", instanceOf("other-agent"))
	s.offer()
	s.eventually("the other agent ended", func() bool { return !slices.Contains(s.pids(), other) })
	s.t.Logf("another agent was stopped within %s", time.Since(began).Round(time.Millisecond))
	if !open() && !s.oneDisk {
		s.t.Error("the document was followed only after the upgrade")
	}
}

// tooSlow is an upgrade for which there is not the time: nothing was touched, and nothing is left.
func (s *slowChange) tooSlow(within time.Duration) {
	s.t.Helper()
	o := outcome(s.t, s.upgrade(within, s.removesOther), taskv1.State_STATE_UNDONE)
	late := time.Since(s.deadline)
	s.t.Logf("undone %s after its deadline: %s in %s", late.Round(time.Millisecond), o.GetCode(), o.GetFailedStep())
	if o.GetCode() != code.TimedOut ||
		slices.ContainsFunc(o.GetSteps(), func(took *taskv1.StepTime) bool { return change.Touches(took.GetStep()) }) {
		s.t.Errorf("outcome %v, want %s before the switch", o, code.TimedOut)
	}
	if late > 5*time.Second { // a sync that is under way cannot be given up, but nothing else is begun
		s.t.Errorf("it ended %s after its deadline", late)
	}
	s.eventually("the other agent is removed", func() bool { return s.endedTask(s.removal) != nil })
	s.staysAlone(s.running, s.pid)
}

// succeeds is an upgrade for which there is the time.
func (s *slowChange) succeeds(within time.Duration) {
	s.t.Helper()
	outcome(s.t, s.upgrade(within, nil), good)
	s.t.Logf("succeeded %s before its deadline", time.Until(s.deadline).Round(time.Millisecond))
	if now := s.good("cn-agent", "2.0.0").GetPid(); !slices.Equal(s.pids(), []int{int(now)}) {
		s.t.Errorf("processes %v, want %d only", s.pids(), now)
	}
}

// slowVariable set to anything slows a real disk down. It does so by a limit in the root
// control group, which a test that is killed leaves there, so it is asked for.
const slowVariable = "GARRISON_SLOW_DISK"

func TestAnUpgradeOnASlowDiskIsUndoneAtItsDeadlineOrSucceedsAndTheOldVersionRunsOn(t *testing.T) {
	t.Parallel()
	if os.Getenv(slowVariable) == "" {
		t.Skipf("%s is not set: make slow-disk", slowVariable)
	}
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	b := newBench(t)
	d := powercut.New(t, diskSize)
	b.root = layout.Root(filepath.Join(d.Mount, "root"))
	if err := throttle(d, slowBytes, slowWrites); err != nil {
		t.Skipf("no disk can be slowed here: %v", err)
	}
	d.Before = func() {
		if err := throttle(d, 0, 0); err != nil {
			t.Error(err)
		}
		b.endAgents()
	}
	took, err := timeOf(d, slowBytes/2)
	if err != nil || took < 200*time.Millisecond {
		t.Skipf("no disk can be slowed here: %d bytes took %s: %v", slowBytes/2, took, err)
	}
	if err := throttle(d, 0, 0); err != nil {
		t.Fatal(err)
	}
	s := b.slowly(func(string) {})
	if err := throttle(d, slowBytes, slowWrites); err != nil {
		t.Fatal(err)
	}
	s.oneDisk = true
	s.tooSlow(1500 * time.Millisecond)
	s.succeeds(time.Minute)
}

// The same where no disk can be slowed: every write of the journal waits for another one
// that takes its time, every step begins and ends late, and the last sync of the staging
// is under way when the deadline passes.
func TestAnUpgradeWhoseSyncsAreSlowIsUndoneAtItsDeadlineOrSucceedsAndTheOldVersionRunsOn(t *testing.T) {
	t.Parallel()
	const each = 20 * time.Millisecond
	b := newBench(t)
	var outlast atomic.Bool
	var s *slowChange
	s = b.slowly(func(p string) {
		time.Sleep(each)
		if p == "end stage" && outlast.Load() {
			time.Sleep(time.Until(s.deadline) + each)
		}
	})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = s.j.Update(func(*journal.Tx) error { time.Sleep(each); return nil })
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	outlast.Store(true)
	s.tooSlow(5 * time.Second) // the staging begins before that, also on a busy machine
	outlast.Store(false)
	s.succeeds(time.Minute)
}

// slowStart is a supervisor that takes its time for each start, as systemd does when its bus
// does not answer.
type slowStart struct {
	supervise.Supervisor
	started chan struct{} // receives each start
	goOn    chan struct{}
	starts  atomic.Int32
}

func (s *slowStart) Unit(spec supervise.Spec, log zerolog.Logger, changed func()) supervise.Unit {
	return slowUnit{s.Supervisor.Unit(spec, log, changed), s}
}

type slowUnit struct {
	supervise.Unit
	s *slowStart
}

func (u slowUnit) Start() (bool, error) {
	u.s.starts.Add(1)
	u.s.started <- struct{}{}
	<-u.s.goOn
	return u.Unit.Start()
}

func TestAnExecutorThatIsToldToStopStartsNoFurtherAgent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.run()
	for _, agent := range []string{"a-agent", "b-agent", "c-agent"} {
		outcome(t, first.do(b.want(b.image(agent, "1.0.0", "ready"))), good)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	s := &slowStart{started: make(chan struct{}, 9), goOn: make(chan struct{})}
	r := b.run(func(c *Config) { s.Supervisor, c.Supervisor = c.Supervisor, s })
	<-s.started
	r.cancel() // the stop comes before the start goes on
	close(s.goOn)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if n := s.starts.Load(); n != 1 {
		t.Errorf("%d agents were started", n)
	}
}

// An image may give its agent an hour to end; nothing else on the server waits for that.
func TestAnAgentThatTakesLongToEndHoldsNothingElseUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ends atomic.Bool // the removal is under way
	r := b.run(func(c *Config) {
		c.CheckEvery = 50 * time.Millisecond
		c.FailPoint = func(p string) {
			if p == "begin switch" {
				ends.Store(true)
			}
		}
	})
	slow := b.image("slow-agent", "1.0.0", "stubborn", func(m *imagev1.Manifest) { m.Run.StopTimeoutMs = 3600_000 })
	outcome(t, r.do(b.want(slow)), good)
	stubborn := int(r.good("slow-agent", "1.0.0").GetPid())
	ends.Store(false)
	removal := b.unwant("slow-agent", instanceOf("slow-agent"))
	r.offer()
	r.eventually("it gets the signal to end", ends.Load)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	if _, err := r.Status(); err != nil {
		t.Error(err)
	}
	if err := r.Turn(t.Context()); err != nil {
		t.Error(err)
	}
	if r.endedTask(removal) != nil {
		t.Error("the other change waited for it, or it ended at once")
	}
	if err := syscall.Kill(stubborn, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.wait(removal), good)
}
