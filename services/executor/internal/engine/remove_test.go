package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// at does something at a point of each change, until it says that it was done.
func at(point string, do func() (done bool)) func(*Config) {
	done := false
	return func(c *Config) {
		c.FailPoint = func(p string) {
			if p == point && !done {
				done = do()
			}
		}
	}
}

// stateful installs an agent and puts a file into its state.
func (r *running) stateful(agent string) (file string) {
	r.t.Helper()
	outcome(r.t, r.do(r.want(r.image(agent, "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	file = filepath.Join(r.root.State(agent), "precious")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file
}

// mountAt mounts a file system at a directory, so that it can be neither moved nor deleted.
func (b *workbench) mountAt(dir string) (unmount func()) {
	b.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := unix.Mount("garrison", dir, "tmpfs", 0, "size=64k"); err != nil {
		b.t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	unmount = func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }
	b.t.Cleanup(unmount)
	return unmount
}

// asideOf returns where a removal moved an agent's files.
func (b *workbench) asideOf() string {
	b.t.Helper()
	gone, err := filepath.Glob(b.root.Gone(layout.GoneName("*")))
	if err != nil || len(gone) != 1 {
		b.t.Errorf("set aside: %v: %v", gone, err)
		return ""
	}
	return gone[0]
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func TestARemovalThatCannotMoveTheFilesLeavesTheAgentWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var r *running
	r = b.run(at("begin commit", func() (done bool) {
		_ = r.j.Read(func(tx *journal.Tx) error {
			changes, err := tx.Changes()
			for _, rec := range changes {
				if rec.Verb == taskv1.Verb_VERB_REMOVE { // something is where the files would go
					done = os.MkdirAll(filepath.Join(r.root.Gone(r.rooms.trash.Of(rec).Name), "full"),
						0o755) == nil
				}
			}
			return err
		})
		return done
	}))
	file := r.stateful("cn-agent")
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	r.eventually("it runs", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
	if data, err := os.ReadFile(file); string(data) != "kept" {
		t.Errorf("its state holds %q: %v", data, err)
	}
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if there(b.root.Agent("cn-agent")) || len(b.pids()) != 0 {
		t.Error("the next removal did not take it away")
	}
}

func TestWhatIsMountedInAnAgentsDirectoryIsNotDeletedWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	r.stateful("cn-agent")
	pid := r.good("cn-agent", "1.0.0").GetPid()
	dir := filepath.Join(b.root.State("cn-agent"), "a disk")
	unmount := b.mountAt(dir)
	other := filepath.Join(dir, "foreign")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.Mounted || !strings.Contains(o.GetReason(), dir) ||
		o.GetFailedStep() != taskv1.Step_STEP_CHECK {
		t.Errorf("outcome %v, want %s in the check and the place", o, code.Mounted)
	}
	if now := r.good("cn-agent", "1.0.0").GetPid(); now != pid || !there(other) {
		t.Errorf("process %d became %d, the file is there: %v", pid, now, there(other))
	}
	unmount()
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
}

// Whatever resists, the agent is gone: nothing restarts it on half of its state, its
// name is free, and the rest goes as soon as it can.
func TestWhatARemovalCannotDeleteIsNotStartedAgainAndGoesLater(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"by a later check", "by a later start", "by a later removal"} {
		t.Run(how, func(t *testing.T) {
			b := newBench(t)
			var unmount func()
			r := b.run(at("set aside", func() bool {
				unmount = b.mountAt(filepath.Join(b.asideOf(), "state", "busy"))
				return true
			}))
			r.stateful("cn-agent")
			o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
			if o.GetCode() != code.FilesLeft || !strings.Contains(o.GetReason(), "busy") {
				t.Errorf("outcome %v, want %s and what is left", o, code.FilesLeft)
			}
			if f := r.the("cn-agent"); f.GetHealth() != instancev1.Health_HEALTH_ABSENT ||
				!strings.Contains(f.GetReason(), "busy") ||
				len(b.pids()) != 0 ||
				there(b.root.Agent("cn-agent")) {
				t.Errorf("found %v, processes %v, a directory: %v", f, b.pids(), there(b.root.Agent("cn-agent")))
			}
			// it is still there
			outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
			unmount()
			switch how {
			case "by a later check": // it needs no help
			case "by a later start":
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
				r = b.run()
			case "by a later removal":
				outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
			}
			r.eventually("nothing is left", func() bool { return len(b.left()) == 0 && r.the("cn-agent") == nil })
		})
	}
}

// As long as something of an agent is left, nothing takes the executor away that tries again.
func TestADeadServerIsNotDoneWhileFilesOfAnAgentAreLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var unmount func()
	var mu sync.Mutex
	var reported []int
	r := b.run(at("set aside", func() bool {
		unmount = b.mountAt(filepath.Join(b.asideOf(), "state", "busy"))
		return true
	}), func(c *Config) {
		c.CheckEvery = 20 * time.Millisecond
		c.Left = func(r Remains) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, r.Instances+r.Changes)
		}
	})
	r.stateful("cn-agent")
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	b.doc.Generation++
	b.doc.Life, b.doc.Removals = serverv1.Life_LIFE_DEAD, nil
	r.offer()
	look := func() (n, last int) {
		mu.Lock()
		defer mu.Unlock()
		if n = len(reported); n > 0 {
			last = reported[n-1]
		}
		return n, last
	}
	r.eventually("what is left is reported", func() bool { n, _ := look(); return n > 3 })
	if _, last := look(); last != 1 {
		t.Errorf("%d are left, want the one whose files are", last)
	}
	unmount()
	r.eventually("nothing is left", func() bool { _, last := look(); return last == 0 && len(b.left()) == 0 })
}

func TestAnAgentIsInstalledAgainBesideWhatARemovalLeft(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(at("set aside", func() bool {
		b.mountAt(filepath.Join(b.asideOf(), "state", "busy"))
		return true
	}))
	file := r.stateful("cn-agent")
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	b.settleDocument()
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.good("cn-agent", "2.0.0")
	if there(file) {
		t.Error("it has the state of the one that was removed")
	}
}

func TestAKeptVersionIsKnownUntilItsFilesAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(keeping(1, 1<<30))
	one := b.image("a-agent", "1.0.0", "ready")
	r.do(b.want(one))
	r.do(b.want(b.image("a-agent", "2.0.0", "ready")))
	r.do(b.want(b.image("b-agent", "1.0.0", "ready"))) // it has the same content
	r.rooms.images.Keep = Keep{}
	known := func() (n int) {
		_ = r.j.Read(func(tx *journal.Tx) error {
			kept, err := tx.Kept()
			n = len(kept["a-agent"])
			return err
		})
		return n
	}
	if err := r.rooms.images.ApplyKeep(nil); err != nil || known() != 1 ||
		!there(b.root.Image(one.GetBlob().GetDigest())) {
		t.Errorf("%d versions are known while something else needs the files: %v", known(), err)
	}
	// as if it had gone without a sweep
	if err := r.j.Update(func(tx *journal.Tx) error { return tx.DropInstance("b-agent") }); err != nil {
		t.Fatal(err)
	}
	if err := r.rooms.images.ApplyKeep(nil); err != nil || known() != 0 ||
		there(b.root.Image(one.GetBlob().GetDigest())) {
		t.Errorf("%d versions are known when nothing needs the files: %v", known(), err)
	}
}

func TestAnImageThatCannotBeDeletedIsNotThereInPart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	one := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(one))
	b.mountAt(filepath.Join(b.root.Image(one.GetBlob().GetDigest()), "etc"))
	unmount := func() {
		_ = unix.Unmount(filepath.Join(b.root.GoneImage(one.GetBlob().GetDigest()), "etc"), unix.MNT_DETACH)
	} // where it was moved
	t.Cleanup(unmount)
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	if there(b.root.Image(one.GetBlob().GetDigest())) || !there(b.root.GoneImage(one.GetBlob().GetDigest())) {
		t.Error("it is where it was, or there is nothing left that could not be deleted")
	}
	unmount()
	b.doc.Generation++
	r.offer()
	r.eventually("the rest goes with the next document",
		func() bool { return !there(b.root.GoneImage(one.GetBlob().GetDigest())) })
}
