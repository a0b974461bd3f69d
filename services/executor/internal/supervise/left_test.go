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

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/powercut"
)

// childOf returns the process whose id a script writes to the file child.
func childOf(t *testing.T, s Spec) (pid int) {
	t.Helper()
	polltest.Eventually(t, "the child runs", func() bool {
		data, _ := os.ReadFile(filepath.Join(s.Dir, "child"))
		_, err := fmt.Sscanln(string(data), &pid)
		return err == nil
	})
	t.Cleanup(func() {
		if t.Failed() && runs(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pid
}

// daemonizes starts a script in a session of its own, from an intermediate process that ends, as a daemon does. The
// script writes its id to the file child.
func daemonizes(does string) string {
	return `(setsid sh -c '` + does + `' &); `
}

const stays = `trap "" TERM; echo $$ > child; while :; do sleep 1; done`

func TestStopEndsAProcessThatLeftTheSession(t *testing.T) {
	s := shell(t, daemonizes(stays)+"exec sleep 60")
	u := startable(t, s)
	begin(t, u)
	child := childOf(t, s)
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	if runs(child) {
		t.Error("it runs after the stop")
	}
}

func TestAProcessThatLeftTheSessionHasTheSameTimeToEnd(t *testing.T) {
	s := shell(
		t,
		daemonizes(
			`trap "sleep 0.2; echo 1 > tidied; exit" TERM; echo $$ > child; while :; do sleep 0.02; done`,
		)+"exec sleep 60",
	)
	s.StopTimeout = 10 * time.Second
	u := startable(t, s)
	begin(t, u)
	child := childOf(t, s)
	if err := u.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "tidied")); err != nil || runs(child) {
		t.Errorf("it runs: %v; it could not tidy up: %v", runs(child), err)
	}
}

func TestAProcessThatLeftTheSessionEndsWhenTheLeaderDoes(t *testing.T) {
	s := shell(t, daemonizes(stays)+"while [ ! -s child ]; do sleep 0.01; done; exit 3")
	u := startable(t, s)
	begin(t, u)
	child := childOf(t, s)
	<-u.Exited()
	if runs(child) {
		t.Error("it runs when the next start may happen")
	}
}

// No executor ran when the process ended; only the record is left.
func TestAProcessThatLeftTheSessionOfARecordedStartIsEnded(t *testing.T) {
	for name, does := range map[string]func(*unit) error{
		"stopped": (*unit).Stop,
		"started": func(u *unit) error { _, err := u.Start(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := shell(t, "exec sleep 60")
			token := proctree.NewToken()
			r := record{Token: token, Boot: proctree.BootID(), Pid: 1 << 22, Start: 1}
			if err := r.write(s.Record); err != nil {
				t.Fatal(err)
			}
			before := shell(t, daemonizes(stays)+"exit 0")
			before.Dir, before.Env = s.Dir, append(before.Env, proctree.Mark(token))
			cmd, err := before.command()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Dir = s.Dir
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
			child := childOf(t, s)
			if err := does(startable(t, s)); err != nil || runs(child) {
				t.Errorf("it runs: %v: %v", runs(child), err)
			}
		})
	}
}

func TestAProcessThatASetUpLeftInAnotherSessionIsEnded(t *testing.T) {
	s := shell(t, daemonizes(stays)+"while [ ! -s child ]; do sleep 0.01; done")
	if err := new(starts).runOnce(s, nil); err != nil {
		t.Fatal(err)
	}
	if child := childOf(t, s); runs(child) {
		t.Error("it runs")
	}
}

// A process that waits for a disk cannot be killed. It must not keep its agent down, and must stay in the record.
func TestAProcessThatCannotBeKilledBlocksNoRestart(t *testing.T) {
	t.Parallel()
	if why := powercut.Unable(t); why != "" {
		t.Skip(why)
	}
	disk := powercut.New(t, 16<<20)
	disk.Freeze(t)
	s := shell(t, "exec sleep 60")
	token := proctree.NewToken()
	if err := (record{Token: token, Boot: proctree.BootID(), Pid: 1 << 22, Start: 1}).write(s.Record); err != nil {
		t.Fatal(err)
	}
	before := exec.Command("/bin/sh", "-c", `echo $$ > "$0"; echo x > "$1"`, filepath.Join(s.Dir, "child"),
		filepath.Join(disk.Mount, "file"))
	before.Env, before.SysProcAttr = []string{proctree.Mark(token)}, &syscall.SysProcAttr{Setsid: true}
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	child := childOf(t, s)
	t.Cleanup(func() { disk.Thaw(); _ = before.Wait() })
	polltest.Eventually(t, "it waits for the disk", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return strings.Contains(string(stat), ") D ")
	})
	u := startable(t, s)
	for range 2 { // the second record must have it too
		began := time.Now()
		if pid := begin(t, u); pid == 0 || time.Since(began) >= killWithin || !runs(child) {
			t.Errorf("process %d after %s; the leftover runs: %v", pid, time.Since(began), runs(child))
		}
		if r, _, err := readRecord(s.Record); err != nil || len(r.Left) != 1 || r.Left[0] != token {
			t.Errorf("the record has %v: %v", r.Left, err)
		}
		_ = syscall.Kill(u.Status().Pid, syscall.SIGKILL)
		<-u.Exited()
	}
	left, err := u.proc.endRest(time.Millisecond)
	if err == nil || len(left) != 1 {
		t.Errorf("a stop would leave %v: %v", left, err)
	}
	disk.Thaw()
	if err := u.Stop(); err != nil || runs(child) {
		t.Errorf("the disk is back, and the leftover runs: %v: %v", runs(child), err)
	}
}

// forgotten deletes the record of a running process. What starts later knows nothing of it, as another executor.
func forgotten(t *testing.T, u *unit) (pid int) {
	t.Helper()
	pid = u.Status().Pid
	u.Leave()
	if err := os.Remove(u.spec.Record); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestAProcessWhoseRecordIsLostEndsBeforeAnotherStarts(t *testing.T) {
	s := shell(t, "sleep 60")
	older, other := s, shell(t, "sleep 60")
	older.Record = filepath.Join(s.Dir, RecordName("older"))
	kept := older
	kept.Record = filepath.Join(s.Dir, RecordName("kept"))
	var pids []int
	for _, spec := range []Spec{s, older} {
		u := startable(t, spec)
		begin(t, u)
		pids = append(pids, forgotten(t, u))
	}
	elsewhere, recorded := begin(t, startable(t, other)), begin(t, startable(t, kept))
	again := begin(t, startable(t, s))
	for _, pid := range pids {
		if runs(pid) {
			t.Errorf("process %d runs beside the new one", pid)
		}
	}
	if !runs(again) || !runs(elsewhere) || !runs(recorded) {
		t.Errorf("the new process runs: %v; another agent's: %v; one that is recorded: %v",
			runs(again), runs(elsewhere), runs(recorded))
	}
}

func TestStopEndsAProcessWhoseRecordIsLost(t *testing.T) {
	u := startable(t, shell(t, "sleep 60"))
	begin(t, u)
	pid := forgotten(t, u)
	if err := startable(t, u.spec).Stop(); err != nil || runs(pid) {
		t.Errorf("process %d runs: %v; %v", pid, runs(pid), err)
	}
}

func TestTheRecordOfARunningProcessIsWrittenAgain(t *testing.T) {
	u := startable(t, shell(t, "sleep 60"))
	pid := begin(t, u)
	if err := os.Remove(u.spec.Record); err != nil {
		t.Fatal(err)
	}
	begin(t, u)
	next := startable(t, u.spec)
	if adopted, err := next.Start(); err != nil || !adopted || next.Status().Pid != pid {
		t.Errorf("adopted %v, pid %d, want %d: %v", adopted, next.Status().Pid, pid, err)
	}
}
