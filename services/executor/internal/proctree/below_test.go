package proctree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/polltest"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// stays runs a program in a directory until the test ends.
func stays(t *testing.T, dir, name string, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func makeDir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sleeper puts a program that sleeps into a directory.
func sleeper(t *testing.T, dir string) string {
	t.Helper()
	from, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	path := filepath.Join(dir, "sleeper")
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A daemon that was started with an empty environment carries no token. A person's shell may stand in the directory.
func TestOnlyProgramsBelowADirectoryAreEnded(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	daemon, shell := stays(t, "/", sleeper(t, dir), "60"), stays(t, makeDir(t, dir, "state"), "sleep", "60")
	others, err := proctree.EndBelow(time.Minute, dir)
	if err != nil || len(others) != 1 || others[0].PID != shell {
		t.Errorf("%v, %v; want %d", others, err, shell)
	}
	polltest.Eventually(t, "the daemon has ended", func() bool { return proctree.Executes(daemon, dir) == "" })
}

func TestProcessesBelowADirectoryAreFoundAlsoAfterItsDeletion(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, beside := makeDir(t, top, "top"), makeDir(t, top, "top-beside")
	work, gone := makeDir(t, dir, "work"), makeDir(t, dir, "gone")
	want := map[int]proctree.Process{}
	for _, p := range []proctree.Process{{Dir: work}, {Exe: sleeper(t, work)}, {Exe: sleeper(t, gone), Dir: gone}} {
		name, cwd := "sleep", "/"
		if p.Exe != "" {
			name = p.Exe
		}
		if p.Dir != "" {
			cwd = p.Dir
		}
		p.PID = stays(t, cwd, name, "600")
		want[p.PID] = p
	}
	stays(t, beside, "sleep", "600")
	stays(t, dir, sleeper(t, beside), "600") // the directory itself is not below it
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "all are found", func() bool { // each has become its program by then
		found, err := proctree.Below(filepath.Join(top, "nothing"), dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != len(want) {
			return false
		}
		for _, p := range found {
			if want[p.PID] != p {
				return false
			}
		}
		return true
	})
}

// In a mount namespace of its own the same path is another directory.
func TestAProcessInAContainerAtTheSamePathDoesNotCount(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work, flag := makeDir(t, top, "top", "work"), filepath.Join(top, "up")
	script := `mount -t tmpfs garrison "$1" && mkdir "$1/work" && cd "$1/work" && touch "$2" && exec sleep 600`
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace here: %s", out)
	}
	pid := stays(t, "/", "unshare", "-m", "sh", "-c", script, "sh", filepath.Dir(work), flag)
	polltest.Eventually(t, "it works there", func() bool {
		cwd, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
		_, err := os.Stat(flag)
		return err == nil && strings.HasSuffix(cwd, "/work")
	})
	if found, err := proctree.Below(filepath.Dir(work)); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}
