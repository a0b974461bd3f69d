package supervise

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// foreign starts a process that no unit started, with a child, and returns its adoption.
func foreign(t *testing.T, same bool) (*exec.Cmd, change.Adoption) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "sleep 600 & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	start, ok := proctree.StartTime(cmd.Process.Pid)
	if !ok {
		t.Fatal("it does not run")
	}
	return cmd, change.Adoption{Pid: cmd.Process.Pid, Start: start, Boot: proctree.BootID(), Same: same}
}

// take returns the unit of an adopted process above one that runs sleep.
func take(t *testing.T, is change.Adoption) *Taken {
	t.Helper()
	dir := t.TempDir()
	s := Spec{
		Notify: true, Agent: "web", Image: "image", Name: "web 1", Path: "/bin/sleep", Args: []string{"600"}, Dir: dir,
		Record: filepath.Join(dir, RecordName("image")), Output: filepath.Join(dir, "output.log"),
	}
	u := Take(new(starts).newUnit(s, DefaultPolicy, zerolog.Nop(), func() {}), s, is, func() {})
	t.Cleanup(func() { _ = u.Stop() })
	return u
}

func TestAnAdoptedProcessIsTheUnitsAndIsLeftAsItIs(t *testing.T) {
	cmd, is := foreign(t, true)
	u := take(t, is)
	for range 2 {
		if adopted, err := u.Start(); !adopted || err != nil {
			t.Fatalf("adopted %v: %v", adopted, err)
		}
	}
	u.Keep()
	if s := u.Status(); s.Pid != cmd.Process.Pid || u.Ready() == nil {
		t.Errorf("status %v", s)
	}
	u.Leave()
	if !Lives(&is) {
		t.Error("letting it go ended it")
	}
}

func TestTheProgramOfTheImageIsStartedWhenTheAdoptedProcessEnds(t *testing.T) {
	cmd, is := foreign(t, true)
	u := take(t, is)
	u.Keep()
	_ = cmd.Process.Kill()
	polltest.Eventually(t, "it runs again", func() bool { s := u.Status(); return s.Pid != 0 && s.Pid != is.Pid })
	if u.IsGuest() {
		t.Error("it counts as the adopted process")
	}
}

func TestAnotherProgramIsNotStartedAgain(t *testing.T) {
	cmd, is := foreign(t, false)
	u := take(t, is)
	u.Keep()
	_ = cmd.Process.Kill()
	polltest.Eventually(t, "it ended", func() bool { return u.Status().Pid == 0 })
	if _, err := u.Start(); fault.RefusalOf(err).GetCode() != code.NotRestartable {
		t.Errorf("started: %v", err)
	}
	if s := u.Status(); s.Pid != 0 || s.LastEnd == "" {
		t.Errorf("status %v", s)
	}
}

func TestAStopEndsTheAdoptedProcessAndItsChildren(t *testing.T) {
	_, is := foreign(t, true)
	u := take(t, is)
	polltest.Eventually(t, "it has a child", func() bool { return len(proctree.Descendants(is.Pid)) == 1 })
	child := proctree.Descendants(is.Pid)[0]
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "both ended", func() bool {
		_, runs := proctree.StartTime(child.Pid)
		return !Lives(&is) && !runs
	})
}

func TestAnotherProcessWithTheIDIsNeitherAdoptedNorSignalled(t *testing.T) {
	cmd, is := foreign(t, true)
	reused := is
	reused.Start++
	boot := is
	boot.Boot = "another"
	for _, other := range []change.Adoption{reused, boot} {
		other.Same = false
		u := take(t, other)
		if adopted, _ := u.Adopt(); adopted {
			t.Errorf("adopted %v", other)
		}
		if err := u.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		if err := u.Stop(); err != nil {
			t.Error(err)
		}
	}
	if !Lives(&is) {
		t.Errorf("process %d was ended", cmd.Process.Pid)
	}
}

// A process that was let go is no longer watched: a server that adopts and releases often keeps no goroutines.
func TestAProcessThatWasForgottenIsNotWatched(t *testing.T) {
	cmd, is := foreign(t, true)
	u := take(t, is)
	exited := u.Exited()
	u.Leave()
	for range 2 {
		u.Forget()
	}
	polltest.Eventually(t, "the watching ends", func() bool {
		select {
		case <-exited:
			return true
		default:
			return false
		}
	})
	if !Lives(&is) || cmd.ProcessState != nil {
		t.Error("the process ended with it")
	}
}
