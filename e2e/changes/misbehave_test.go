package changes_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// A version that fails its health check is rolled back: the old one answers, and the task says why.
func TestAVersionThatFailsItsHealthCheckIsRolledBack(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	for i, misbehave := range []string{"exit", "exit-later", "never-ready"} {
		t.Run(misbehave, func(t *testing.T) {
			w.T = t
			version := fmt.Sprintf("3.0.%d", i)
			w.Image(version, misbehave)
			w.Fails(1, "undone", "up", "beacon@"+version, "--on", "all", "--yes")
			w.Answers("1.0.0")
			rows, err := w.Instances("daemon")
			if err != nil || len(rows) != 1 || rows[0].State != "STATE_FAILED" || rows[0].Observed.Version != "1.0.0" {
				t.Errorf("the instance is %+v (%v), want it failed with 1.0.0 observed", rows, err)
			}
		})
	}
	w.T = t
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
	w.Holds()
}

// A first install that fails leaves nothing behind.
func TestAFirstInstallThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.Image("3.0.0", "exit")
	w.Fails(1, "undone", "install", "beacon@3.0.0", "--on", "all")
	w.Eventually("nothing is left", func() error { return w.Servers[0].NothingLeft() })
	w.OK("up", "beacon@1.0.0", "--on", "all", "--yes")
	w.Converges("1.0.0")
	w.Holds()
}

// An agent keeps running while its executor is down, which takes it back without a restart.
func TestAnAgentOutlivesItsExecutor(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	s := w.Servers[0]
	before, err := s.Get(t.Context(), "/pid")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Executor.Kill(); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the registry says offline", func() error {
		if !strings.Contains(w.OK("server", "list", "-o", "json"), "PRESENCE_OFFLINE") {
			return fmt.Errorf("still online")
		}
		return nil
	})
	w.Answers("1.0.0")
	if err := s.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the registry says online", func() error {
		if !strings.Contains(w.OK("server", "list", "-o", "json"), "PRESENCE_ONLINE") {
			return fmt.Errorf("still offline")
		}
		return nil
	})
	after, err := s.Get(t.Context(), "/pid")
	if err != nil || after != before {
		t.Errorf("the agent's process is %s after the executor's restart (%v), want %s", after, err, before)
	}
}

// A program that was deleted from a server's disk is restored from the catalog, and the agent
// restarts from it.
func TestAnImageThatIsDamagedOnAServerIsRepaired(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	s := w.Servers[0]
	before, err := s.Get(t.Context(), "/pid")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(s.Root, "agents", "beacon", "current", "beacon")
	dir, err := filepath.EvalSymlinks(filepath.Dir(program))
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.Remove(program))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the program is on the disk again", func() error {
		_, err := os.Stat(program)
		return err
	})
	w.Converges("1.0.0")
	w.Eventually("another process runs", func() error {
		if after, err := s.Get(t.Context(), "/pid"); err != nil || after == before {
			return fmt.Errorf("the process is %s, was %s: %v", after, before, err)
		}
		return nil
	})
	w.Holds()
}
