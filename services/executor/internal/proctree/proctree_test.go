package proctree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// start runs a script that carries a token, and waits until it has created the file up.
func start(t *testing.T, token, script string) (dir string, cmd *exec.Cmd) {
	t.Helper()
	dir = t.TempDir()
	cmd = exec.Command("/bin/sh", "-c", script)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), proctree.Mark(token)}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = proctree.End(token, 5*time.Second) })
	polltest.Eventually(t, "it is up", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	return dir, cmd
}

func alive(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	pid, bad := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || bad != nil {
		t.Fatalf("%s: %v %v", path, err, bad)
	}
	return pid
}

func TestAProcessThatLeftItsSessionIsFoundAndEnded(t *testing.T) {
	token := proctree.NewToken()
	dir, _ := start(t, token,
		`setsid sh -c 'trap "" TERM; setsid sleep 600 & echo $! > grandchild; : >up; sleep 600'`)
	pid := pidIn(t, filepath.Join(dir, "grandchild"))
	if found, err := proctree.Of(token); err != nil || !slices.Contains(found, pid) {
		t.Errorf("found %v, want %d among them: %v", found, pid, err)
	}
	if err := proctree.End(token, 5*time.Second); err != nil {
		t.Error(err)
	}
	if found, err := proctree.Of(token); err != nil || len(found) != 0 || alive(t, pid) {
		t.Errorf("found %v, and %d is alive: %v: %v", found, pid, alive(t, pid), err)
	}
}

func TestOnlyAProcessWithTheVeryTokenIsSignalled(t *testing.T) {
	token := proctree.NewToken()
	_, other := start(t, token+"0", ": >up; exec sleep 600") // the token is its prefix
	if err := proctree.End(token, time.Second); err != nil {
		t.Error(err)
	}
	if err := proctree.End("", time.Second); err != nil { // as in a record without a token
		t.Error(err)
	}
	if !alive(t, other.Process.Pid) {
		t.Error("another start's process was killed")
	}
}

func TestASkippedProcessGetsNoSignal(t *testing.T) {
	token := proctree.NewToken()
	_, cmd := start(t, token, ": >up; exec sleep 600")
	n, err := proctree.Signal(token, 15, func(pid int) bool { return pid == cmd.Process.Pid })
	if n != 0 || err != nil || !alive(t, cmd.Process.Pid) {
		t.Errorf("%d signalled: %v", n, err)
	}
}

// During an exec the kernel shows none of the process's environment for a moment.
func TestAProcessInAnEndlessExecIsFoundAndEnded(t *testing.T) {
	t.Parallel()
	again := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(again, []byte("#!/bin/sh\n: >up\nexec \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		token := proctree.NewToken()
		_, cmd := start(t, token, "exec "+again)
		if err := proctree.End(token, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		// A dying process shows no environment either, before it is a zombie.
		polltest.Eventually(t, "it has ended, and did not count as a process without the token",
			func() bool { return !alive(t, cmd.Process.Pid) })
	}
}
