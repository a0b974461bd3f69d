package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

var quick = Policy{First: 5 * time.Millisecond, Longest: 20 * time.Millisecond, Steady: time.Minute, CrashLoop: 3, Resting: time.Hour, OutputBytes: 1000}

func shell(t *testing.T, script string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{
		Name: "agent", Record: filepath.Join(dir, "process.json"), Output: filepath.Join(dir, "output.log"), Dir: dir,
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, StopTimeout: 300 * time.Millisecond,
	}
}

func unit(t *testing.T, s Spec) *Unit {
	t.Helper()
	u := NewUnit(s, quick, zerolog.Nop(), func() {})
	t.Cleanup(func() { _ = u.Stop() })
	return u
}

func begin(t *testing.T, u *Unit) int {
	t.Helper()
	if _, err := u.Start(); err != nil {
		t.Fatal(err)
	}
	return u.Status().Pid
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}

func runs(pid int) bool {
	_, ok := startTime(pid)
	return ok
}

func TestARunningProcessIsTakenOverByAnotherUnit(t *testing.T) {
	s := shell(t, "sleep 60")
	pid := begin(t, unit(t, s))
	u := unit(t, s)
	adopted, err := u.Start()
	if err != nil || !adopted || u.Status().Pid != pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, u.Status().Pid, pid, err)
	}
}

func TestAProcessWhoseStartWasNotWrittenDownYetIsFoundByItsToken(t *testing.T) {
	s := shell(t, "sleep 60")
	if err := (record{Token: "token-" + t.Name(), Boot: bootID()}).write(s.Record); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Env = []string{tokenVariable + "=token-" + t.Name()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	u := unit(t, s)
	adopted, err := u.Start()
	if err != nil || !adopted || u.Status().Pid != cmd.Process.Pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, u.Status().Pid, cmd.Process.Pid, err)
	}
}

func TestAReusedProcessIDIsNeitherTakenOverNorSignalled(t *testing.T) {
	other := exec.Command("/bin/sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	s := shell(t, "sleep 60")
	if err := (record{Token: "x", Boot: bootID(), Pid: other.Process.Pid, Start: 1}).write(s.Record); err != nil {
		t.Fatal(err)
	}
	u := unit(t, s)
	if pid := begin(t, u); pid == other.Process.Pid {
		t.Error("it was taken over")
	}
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	if !runs(other.Process.Pid) {
		t.Error("it was killed")
	}
}

func TestStopEndsTheWholeGroupEvenOneThatIgnoresTheSignal(t *testing.T) {
	s := shell(t, `trap "" TERM; sleep 60 & echo $! > child; while :; do sleep 1; done`)
	u := unit(t, s)
	pid := begin(t, u)
	var child int
	eventually(t, "the child runs", func() bool {
		data, _ := os.ReadFile(filepath.Join(s.Dir, "child"))
		_, err := fmt.Sscan(string(data), &child)
		return err == nil
	})
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are gone", func() bool { return !runs(pid) && !runs(child) })
	if _, err := os.Stat(s.Record); err == nil {
		t.Error("the record is left")
	}
}

func TestWhatAnEndedProcessLeavesInItsGroupIsKilled(t *testing.T) {
	s := shell(t, "sleep 60 & echo $! > child")
	u := unit(t, s)
	begin(t, u)
	<-u.Exited()
	data, err := os.ReadFile(filepath.Join(s.Dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	var child int
	_, _ = fmt.Sscan(string(data), &child)
	eventually(t, "the child is gone", func() bool { return !runs(child) })
}

func TestAKeptProcessIsRestartedUntilItIsACrashLoop(t *testing.T) {
	s := shell(t, "echo run; exit 3")
	u := unit(t, s)
	begin(t, u)
	u.Keep()
	eventually(t, "it is a crash loop", func() bool { return u.Status().CrashLoop })
	data, _ := os.ReadFile(s.Output)
	if n := strings.Count(string(data), "run"); n != quick.CrashLoop {
		t.Errorf("it ran %d times, want %d", n, quick.CrashLoop)
	}
	if got := u.Status(); got.LastEnd != "exit status 3" || got.Pid != 0 {
		t.Errorf("status %+v", got)
	}
}

func TestLeaveDoesNotTouchTheProcess(t *testing.T) {
	u := unit(t, shell(t, "sleep 60"))
	pid := begin(t, u)
	u.Keep()
	u.Leave()
	if !runs(pid) {
		t.Error("it ended")
	}
}

func TestASetUpRunsToItsEnd(t *testing.T) {
	s := shell(t, "echo done > done")
	if err := RunOnce(s, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "done")); err != nil {
		t.Error(err)
	}
	if err := RunOnce(shell(t, "exit 7"), nil); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v", err)
	}
	late := make(chan struct{})
	close(late)
	if err := RunOnce(shell(t, "sleep 60"), late); err == nil {
		t.Error("it ended well, though it was interrupted")
	}
}

func TestOutputIsCutAndKeepsItsEnd(t *testing.T) {
	s := shell(t, "")
	if err := os.WriteFile(s.Output, []byte(strings.Repeat("x", 5000)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	unit(t, s).cutOutput()
	now, _ := os.ReadFile(s.Output)
	before, _ := os.ReadFile(s.Output + ".1")
	if len(now) != 0 || len(before) != int(quick.OutputBytes) || !strings.HasSuffix(string(before), "end") {
		t.Errorf("%d bytes now, %d before", len(now), len(before))
	}
}

func TestTheTailIsValidTextOfTheNewOutputOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output.log")
	if err := os.WriteFile(path, []byte("old\nnew\xff\x00!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Tail(path, 4, 100); got != "new?!" {
		t.Errorf("got %q", got)
	}
	if got := Tail(path, 0, 2); got != "!" {
		t.Errorf("got %q", got)
	}
}
