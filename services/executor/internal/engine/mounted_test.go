package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// mountWith mounts a file system at a directory with a foreign file in it.
func (b *workbench) mountWith(dir string) (file string, unmount func()) {
	b.t.Helper()
	unmount, file = b.mountAt(dir), filepath.Join(dir, "foreign")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		b.t.Error(err)
	}
	return file, unmount
}

func TestWhatIsMountedWhileARemovalStopsTheAgentIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var file string
	var unmount func()
	r := b.run(at("begin commit", func() bool {
		if len(b.doc.Removals) == 0 {
			return false // the install
		}
		file, unmount = b.mountWith(filepath.Join(b.root.State("cn-agent"), "disk"))
		return true
	}))
	r.stateful("cn-agent")
	o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.Mounted || !there(file) {
		t.Errorf("outcome %v, want %s; the file is there: %v", o, code.Mounted, there(file))
	}
	r.eventually("it runs", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
	unmount()
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
}

func TestWhatIsMountedWhereARemovalSetFilesAsideIsNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var file string
	r := b.run(at("set aside", func() bool {
		file, _ = b.mountWith(filepath.Join(b.asideOf(), "state", "disk"))
		return true
	}))
	r.stateful("cn-agent")
	o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.FilesLeft || !there(file) {
		t.Errorf("outcome %v, want %s; the file is there: %v", o, code.FilesLeft, there(file))
	}
	b.doc.Generation++
	r.offer()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.run()
	if !there(file) {
		t.Error("a later document or start deleted it")
	}
}

func TestWhatIsMountedIsNotDeletedWhenAFirstInstallIsUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var file string
	r := b.run(at("begin undo", func() bool {
		file, _ = b.mountWith(filepath.Join(b.root.State("cn-agent"), "disk"))
		return true
	}))
	o := outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "crash"))), taskv1.State_STATE_FAILED)
	if !there(file) || len(b.pids()) != 0 {
		t.Errorf("outcome %v; the file is there: %v; processes %v", o, there(file), b.pids())
	}
}

// A mount is an operator's decision, and no reason to keep the other agents from running.
func TestWhatIsMountedWhereAChangeWasInterruptedIsNotDeletedAndStopsNoStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("a-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	err := r.j.Update(func(tx *journal.Tx) error {
		return tx.PutChange(&change.Record{
			Agent:   "cn-agent",
			Verb:    taskv1.Verb_VERB_INSTALL,
			Step:    taskv1.Step_STEP_REHEARSE,
			DirMade: true,
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	file, _ := b.mountWith(filepath.Join(b.root.State("cn-agent"), "disk"))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	outcome(t, r.do(b.want(b.image("b-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	r.good("a-agent", "1.0.0")
	if !there(file) {
		t.Error("it was deleted")
	}
}

// overlay puts the root, as it is, into the lower layer of an overlay, as an image of a container does.
func (b *workbench) overlay() {
	b.t.Helper()
	disk := b.t.TempDir()
	if err := unix.Mount("garrison", disk, "tmpfs", 0, "size=256m"); err != nil {
		b.t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	lower, at := filepath.Join(disk, "lower"), filepath.Join(disk, "root")
	unmount := func() {
		b.endAgents()
		_ = unix.Unmount(at, unix.MNT_DETACH)
		_ = unix.Unmount(disk, unix.MNT_DETACH)
	}
	b.t.Cleanup(unmount)
	if out, err := exec.Command("cp", "-a", string(b.root), lower).CombinedOutput(); err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	for _, dir := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(disk, dir), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	options := "redirect_dir=off,lowerdir=" + lower + ",upperdir=" + filepath.Join(disk, "upper") + ",workdir=" +
		filepath.Join(disk, "work")
	if err := unix.Mount("garrison", at, "overlay", 0, options); err != nil {
		b.t.Skipf("an overlay cannot be mounted here: %v", err)
	}
	b.root = layout.Root(at)
}

// A directory of a lower layer cannot be moved in one step. That is seen before the agent is stopped.
func TestAnAgentInALowerLayerOfAnOverlayIsNotStoppedByItsRemoval(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	image := b.image("cn-agent", "1.0.0", "ready")
	r.do(b.want(image))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.killAgents()
	b.overlay()
	r = b.run()
	r.eventually("it runs", func() bool { return r.the("cn-agent").GetHealth() == instancev1.Health_HEALTH_GOOD })
	was := r.good("cn-agent", "1.0.0").GetPid()
	o := outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.OtherFileSystem || o.GetFailedStep() != taskv1.Step_STEP_CHECK {
		t.Errorf("outcome %v, want %s in the check", o, code.OtherFileSystem)
	}
	if now := r.good("cn-agent", "1.0.0").GetPid(); now != was {
		t.Errorf("pid was %d and is %d", was, now)
	}
	b.damage(image) // of what cannot be moved, a repair works all the same
	outcome(t, r.do(b.want(image)), taskv1.State_STATE_SUCCEEDED)
	r.wholeAgain(image)
}
