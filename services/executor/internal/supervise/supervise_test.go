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

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/hangup"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

var quick = Policy{
	First:       5 * time.Millisecond,
	Longest:     time.Hour,
	Steady:      time.Minute,
	CrashLoop:   3,
	OutputBytes: 1000,
}

func shell(t *testing.T, script string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{
		Name: "agent", Record: filepath.Join(dir, "process.json"), Output: filepath.Join(dir, "output.log"), Dir: dir,
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		StopTimeout: 300 * time.Millisecond,
	}
}

func startable(t *testing.T, s Spec) *unit {
	t.Helper()
	u := new(starts).newUnit(s, quick, zerolog.Nop(), func() {})
	t.Cleanup(func() { _ = u.Stop() })
	return u
}

func begin(t *testing.T, u *unit) int {
	t.Helper()
	if _, err := u.Start(); err != nil {
		t.Fatal(err)
	}
	return u.Status().Pid
}

func runs(pid int) bool {
	_, ok := proctree.StartTime(pid)
	return ok
}

// The race detector sees a restart that reads what another goroutine sets.
func TestTheEnvironmentMayBeSetWhileAProcessIsRestarted(t *testing.T) {
	u := startable(t, shell(t, "exit 1"))
	begin(t, u)
	u.Keep()
	polltest.Eventually(t, "three restarts", func() bool {
		u.SetEnv([]string{"PATH=" + os.Getenv("PATH")})
		return u.Status().Restarts >= 3
	})
}

func TestARunningProcessIsAdoptedByAnotherUnit(t *testing.T) {
	s := shell(t, "sleep 60")
	pid := begin(t, startable(t, s))
	u := startable(t, s)
	adopted, err := u.Start()
	if err != nil || !adopted || u.Status().Pid != pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, u.Status().Pid, pid, err)
	}
}

func TestAProcessWithoutARecordedPidIsFoundByItsToken(t *testing.T) {
	s := shell(t, "sleep 60")
	if err := (record{Token: "token-" + t.Name(), Boot: proctree.BootID()}).write(s.Record); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "60")
	cmd.Env = []string{proctree.Mark("token-" + t.Name())}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }()
	u := startable(t, s)
	adopted, err := u.Start()
	if err != nil || !adopted || u.Status().Pid != cmd.Process.Pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, u.Status().Pid, cmd.Process.Pid, err)
	}
}

func TestTheFirstOfSeveralCarriersOfATokenIsAdopted(t *testing.T) {
	for name, starts := range map[string]map[int]uint64{
		"a child whose name sorts before its parent's": {10000: 8, 9999: 7},
		"a child with a lower id":                      {300: 9, 9999: 7},
		"a child in the same tick":                     {10000: 7, 9999: 7},
	} {
		if pid, ok := first(starts); pid != 9999 || !ok {
			t.Errorf("%s: %d", name, pid)
		}
	}
}

func TestTheProcessesOfAnAgentAreFoundBelowAnyRoot(t *testing.T) {
	root := layout.Root(filepath.Join(t.TempDir(), "fleet[1]*"))
	if err := os.MkdirAll(root.Run("agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := shell(t, "exec sleep 60")
	s.Record = filepath.Join(root.Run("agent"), RecordName("image"))
	pid := begin(t, startable(t, s))
	if got := NewDirect(root, quick).Members("agent"); len(got) != 1 || got[0] != pid {
		t.Errorf("members %v, want %d", got, pid)
	}
	if got, err := NewDirect(root, quick).Slots(); err != nil || len(got) != 1 ||
		got[0] != (Slot{Agent: "agent", Pid: pid}) {
		t.Errorf("slots %v, want %d: %v", got, pid, err)
	}
}

func TestAReusedProcessIDIsNeitherAdoptedNorSignalled(t *testing.T) {
	other := exec.Command("/bin/sleep", "60")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	s := shell(t, "sleep 60")
	r := record{Token: "x", Boot: proctree.BootID(), Pid: other.Process.Pid, Start: 1}
	if err := r.write(s.Record); err != nil {
		t.Fatal(err)
	}
	u := startable(t, s)
	if pid := begin(t, u); pid == other.Process.Pid {
		t.Error("it was adopted")
	}
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	if !runs(other.Process.Pid) {
		t.Error("it was killed")
	}
}

func TestStopEndsTheWholeGroupEvenIfItIgnoresTheSignal(t *testing.T) {
	s := shell(t, `trap "" TERM; sleep 60 & echo $! > child; while :; do sleep 1; done`)
	u := startable(t, s)
	pid := begin(t, u)
	var child int
	polltest.Eventually(t, "the child runs", func() bool {
		data, _ := os.ReadFile(filepath.Join(s.Dir, "child"))
		_, err := fmt.Sscan(string(data), &child)
		return err == nil
	})
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "both are gone", func() bool { return !runs(pid) && !runs(child) })
	if _, err := os.Stat(s.Record); err == nil {
		t.Error("the record is left")
	}
}

func TestTheGroupOfAnEndedProcessIsKilled(t *testing.T) {
	s := shell(t, "sleep 60 & echo $! > child")
	u := startable(t, s)
	begin(t, u)
	<-u.Exited()
	data, err := os.ReadFile(filepath.Join(s.Dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	var child int
	_, _ = fmt.Sscan(string(data), &child)
	polltest.Eventually(t, "the child is gone", func() bool { return !runs(child) })
}

func TestAKeptProcessIsRestartedUntilItIsACrashLoop(t *testing.T) {
	s := shell(t, "echo run; exit 3")
	u := startable(t, s)
	begin(t, u)
	u.Keep()
	polltest.Eventually(t, "it is a crash loop", func() bool { return u.Status().CrashLoop })
	data, _ := os.ReadFile(s.Output)
	if n := strings.Count(string(data), "run"); n < quick.CrashLoop {
		t.Errorf("it ran %d times, want %d", n, quick.CrashLoop)
	}
	if got := u.Status(); got.LastEnd != "exit status 3" {
		t.Errorf("status %+v", got)
	}
}

func TestLeaveDoesNotTouchTheProcess(t *testing.T) {
	u := startable(t, shell(t, "sleep 60"))
	pid := begin(t, u)
	u.Keep()
	u.Leave()
	if !runs(pid) {
		t.Error("it ended")
	}
}

func TestASetUpRunsToItsEnd(t *testing.T) {
	s := shell(t, "echo done > done")
	if err := new(starts).runOnce(s, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "done")); err != nil {
		t.Error(err)
	}
	err := new(starts).runOnce(shell(t, "exit 7"), nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v", err)
	}
	late := make(chan struct{})
	close(late)
	if err := new(starts).runOnce(shell(t, "sleep 60"), late); err == nil {
		t.Error("it succeeded, though it was interrupted")
	}
}

func TestOutputIsCutAndKeepsItsEnd(t *testing.T) {
	s := shell(t, "")
	if err := os.WriteFile(s.Output, []byte(strings.Repeat("x", 5000)+"end"), 0o600); err != nil {
		t.Fatal(err)
	}
	quick.tendOutput(&marker{path: s.Output}, zerolog.Nop())
	now, _ := os.ReadFile(s.Output)
	before, _ := os.ReadFile(s.Output + ".1")
	if len(now) != 0 || len(before) != int(quick.OutputBytes) || !strings.HasSuffix(string(before), "end") {
		t.Errorf("%d bytes now, %d before", len(now), len(before))
	}
}

func TestTheLastLineOfTheNewOutputHasNoSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "output.log")
	if err := os.WriteFile(path, []byte("old\nusage\n  no login with hunter2-hunter2 \n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := LastLine(path, 4, map[string]string{"password": "hunter2-hunter2"})
	if !strings.HasPrefix(got, "no login with ") || strings.Contains(got, "hunter2") {
		t.Errorf("%q", got)
	}
	if got := LastLine(path, 1<<20, nil); got != "no login with hunter2-hunter2" { // the file was cut since
		t.Errorf("%q", got)
	}
	if got := LastLine(path+".none", 0, nil); got != "" {
		t.Errorf("%q", got)
	}
}

func TestTheTailIsValidTextOfTheNewOutput(t *testing.T) {
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

func TestASignalGoesToTheProcessItself(t *testing.T) {
	hangup.Handle(func() {}) // tests that nohup started ignore SIGHUP, and a shell cannot undo that
	s := shell(t, `trap "echo again > signalled" HUP; echo up > up; while :; do sleep 0.05; done`)
	u := startable(t, s)
	if err := u.Signal(syscall.SIGHUP); err != nil {
		t.Errorf("nothing runs: %v", err)
	}
	begin(t, u)
	polltest.Eventually(t, "it runs", func() bool { _, err := os.Stat(filepath.Join(s.Dir, "up")); return err == nil })
	if err := u.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "it got the signal", func() bool {
		_, err := os.Stat(filepath.Join(s.Dir, "signalled"))
		return err == nil
	})
	if u.Status().Pid == 0 {
		t.Error("it ended")
	}
}

// An image may allow its agent an hour to end. The engine's loop reads the status meanwhile and must not wait for that.
func TestTheStatusIsReadableWhileAProcessTakesLongToEnd(t *testing.T) {
	t.Parallel()
	s := shell(t, `trap "echo >asked" TERM; : >up; while :; do sleep 0.05; done`)
	s.StopTimeout = 3 * time.Second
	u := startable(t, s)
	pid := begin(t, u)
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(s.Dir, name)); return err == nil }
	}
	polltest.Eventually(t, "it is up", there("up"))
	stopped := make(chan error, 1)
	go func() { stopped <- u.Stop() }()
	polltest.Eventually(t, "it got SIGTERM", there("asked"))
	if is := u.Status(); is.Pid != pid { // answered while it is being stopped
		t.Errorf("it runs as %d, want %d", is.Pid, pid)
	}
	select {
	case <-u.Exited():
		t.Error("it counts as ended")
	default:
	}
	if err := u.Stop(); err != nil { // waits for the one before
		t.Error(err)
	}
	if err := <-stopped; err != nil || runs(pid) || u.Status().Pid != 0 {
		t.Errorf("it runs: %v: %v", runs(pid), err)
	}
}
