package self_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// executorImage builds, imports and activates an image of the executor from a program.
func (w *world) executorImage(version string, program func(path string) error) {
	w.T.Helper()
	dir := filepath.Join(w.Dir, "executor-"+version)
	recipe := fmt.Sprintf(
		"agent: executor\nversion: %s\nkind: self\nrun:\n  command: executor\n  ready: {timeout: 10s, soak: 500ms}\n",
		version)
	err := errors.Join(os.MkdirAll(dir, 0o700), program(filepath.Join(dir, "executor")),
		os.WriteFile(filepath.Join(dir, "garrison.yaml"), []byte(recipe), 0o600))
	if err != nil {
		w.T.Fatal(err)
	}
	w.OK("image", "build", dir, "--out", dir+".gimg")
	w.OK("image", "import", dir+".gimg", "--activate")
}

// builtAs builds the executor's own program as a version.
func builtAs(version string) func(path string) error {
	return func(path string) error {
		const module = "github.com/garrison-fleet/garrison/"
		cmd := exec.Command("go", "build", "-ldflags", "-s -w -X "+module+"pkg/version.Version="+version, "-o", path,
			module+"services/executor/cmd/executor")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// runsExecutor waits until the registry and the server itself report an executor's version.
func (w *world) runsExecutor(s *rig.Server, version string) {
	w.T.Helper()
	w.Eventually("executor "+version+" runs on "+s.Name, func() error {
		if out := w.OK("server", "list", "-o", "json"); !strings.Contains(out, fmt.Sprintf("%q", version)) {
			return errors.New(out)
		}
		out, err := w.ExecutorStatus(s.Root)
		if err != nil || !strings.Contains(string(out), "version "+version+",") {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
}

// The executor is an agent like others: it is installed, upgraded, rolled back and removed, while
// agents and its own process keep running.
func TestAnExecutorIsReplacedThroughTheWholeSystem(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	s := w.Servers[0]
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	before, err := s.Get(t.Context(), "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid := s.Executor.Pid()
	w.OK("agent", "create", "executor", "--kind", "self")
	w.executorImage("9.1.0", builtAs("9.1.0"))
	w.executorImage("9.2.0", builtAs("9.2.0"))
	w.executorImage("9.3.0", func(path string) error { // a program that is not an executor
		data, err := os.ReadFile(filepath.Join(scenario.Bin, "beacon"))
		return errors.Join(err, os.WriteFile(path, data, 0o755))
	})

	w.OK("install", "executor@9.1.0", "--on", "all")
	w.runsExecutor(s, "9.1.0")
	w.OK("up", "executor@9.2.0", "--on", "all", "--yes")
	w.runsExecutor(s, "9.2.0")
	w.Fails(1, "undone", "up", "executor@9.3.0", "--on", "all", "--yes")
	w.runsExecutor(s, "9.2.0")
	if got := s.Executor.Pid(); got != pid {
		t.Errorf("the executor's process is %d, was %d", got, pid)
	}

	scenario.Must(t, s.Executor.Kill())
	began := time.Now()
	if err := s.Executor.Start(); err != nil { // the program that was installed by hand
		t.Fatal(err)
	}
	w.Eventually("it became the one of the image", func() error {
		info, err := os.Stat(filepath.Join(s.Root, "executor", "status.json"))
		if err == nil && info.ModTime().Before(began) {
			err = errors.New("it has not written its status yet")
		}
		return err
	})
	w.runsExecutor(s, "9.2.0")
	w.OK("remove", "executor", "--on", "all", "--yes")
	w.Eventually("its image and its link are gone", func() error {
		_, err := os.Readlink(filepath.Join(s.Root, "executor", "program"))
		if !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the link exists: %w", err)
		}
		return nil
	})
	if after, err := s.Get(t.Context(), "/pid"); err != nil || after != before {
		t.Errorf("the agent's process is %s (%v), was %s", after, err, before)
	}
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")

	w.OK("install", "executor@9.2.0", "--on", "all")
	w.runsExecutor(s, "9.2.0")
	w.OK("server", "decommission", "alpha", "--yes")
	if code, err := s.Executor.Ended(scenario.Within(t, time.Minute)); err != nil || code != 0 {
		t.Errorf("the executor ended with %d: %v", code, err)
	}
	if left, err := os.ReadDir(s.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v, %v", left, err)
	}
	w.Holds()
}
