package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// nothingLeft returns an error when a server has processes or files of agents.
func nothingLeft(s *fleet.Server) error {
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return errors.Join(err, fmt.Errorf("processes %v run", pids))
	}
	for _, dir := range []string{"agents", "images", "cache"} {
		entries, err := os.ReadDir(filepath.Join(s.Root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			return fmt.Errorf("%s/%s is left", dir, e.Name())
		}
	}
	return nil
}

func TestADecommissionedServerLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{}, "alpha", "bravo")
	w.ok("install", "beacon@1.0.0", "--on", "all")
	w.converges("1.0.0")
	gone := w.servers[1]
	w.ok("server", "decommission", "bravo", "--yes")
	w.eventually("nothing is left on it", func() error { return nothingLeft(gone) })
	w.servers = w.servers[:1]
	w.converges("1.0.0")

	// The end of its instances and its death are one step: next to each other, at one time.
	var step []string
	for _, f := range w.facts() {
		switch f.Body.(type) {
		case *instancev1.Gone, *serverv1.Dead:
			step = append(step, fmt.Sprintf("%s %d", f.Name(), f.Sequence))
		}
	}
	if len(step) != 2 {
		t.Errorf("the step is %v, want one instance gone and one server dead", step)
	}
	// A person made the machine, so the executor uninstalls itself, and reports it before.
	w.eventually("its root is gone", func() error { return nothingAt(gone.Root) })
	w.eventually("its last receipt is recorded", func() error { return w.leaked("bravo", false) })
	w.fails(1, "UNKNOWN_SERVER", "install", "beacon@1.0.0", "--on", "bravo")
	w.ok("server", "forget", "bravo")
	w.holds()
	w.equalViews()
}

// nothingAt returns an error when a path exists.
func nothingAt(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}

// leaked returns an error unless a dead server is listed, or not, as one with possible remains.
func (w *world) leaked(name string, want bool) error {
	list := w.ok("server", "list", "--leaked")
	if strings.Contains(list, name) != want {
		return fmt.Errorf("leaked servers:\n%s", list)
	}
	return nil
}

func TestAProvisionedServerRestsWhenItIsDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{})
	s, err := w.EnrollServer(t.Context(), "cloud", "--provisioned")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is online", func() error { return w.says("PRESENCE_ONLINE", "server", "list", "-o", "json") })
	w.ok("install", "beacon@1.0.0", "--on", "cloud")
	w.ok("server", "decommission", "cloud", "--yes")
	w.eventually("nothing is left on it", func() error { return nothingLeft(s) })
	w.eventually("its executor rests", func() error {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "executor"), "status", "--root", s.Root).
			CombinedOutput()
		if err != nil || !strings.Contains(string(out), "resting") || !strings.Contains(string(out), "PROVISIONED") {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
	if _, err := os.Stat(filepath.Join(s.Root, "executor", "identity.json")); err != nil {
		t.Errorf("the identity: %v", err)
	}
	if err := w.leaked("cloud", false); err != nil {
		t.Error(err)
	}
}

// says returns an error unless the CLI prints a word.
func (w *world) says(word string, args ...string) error {
	if out := w.ok(args...); !strings.Contains(out, word) {
		return fmt.Errorf("no %s in:\n%s", word, out)
	}
	return nil
}

func TestALostServerIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fleet.Options{}, "alpha", "bravo")
	w.ok("install", "beacon@1.0.0", "--on", "all")
	w.converges("1.0.0")
	w.fails(1, "SERVER_ONLINE", "server", "decommission", "bravo", "--lost", "--yes")
	if err := w.servers[1].Executor.Kill(); err != nil {
		t.Fatal(err)
	}
	w.eventually("it may be declared lost", func() error {
		_, err := w.CLI(t.Context(), "server", "decommission", "bravo", "--lost", "--yes")
		return err
	})
	// The machine is not really lost here: end the agent that outlives its executor.
	pids, err := w.servers[1].AgentProcesses()
	if err != nil || len(pids) != 1 {
		t.Fatalf("agents of the lost server: %v, %v; want one", pids, err)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost := w.servers[1]
	w.servers = w.servers[:1]
	w.converges("1.0.0")
	w.holds()
	if err := w.leaked("bravo", true); err != nil {
		t.Error(err)
	}
	// It was not lost after all: it connects, reads that it is dead, and uninstalls itself.
	if err := lost.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	w.eventually("its root is gone", func() error { return nothingAt(lost.Root) })
	w.eventually("it is not leaked any more", func() error { return w.leaked("bravo", false) })
}
