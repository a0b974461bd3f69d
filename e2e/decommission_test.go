package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// nothingLeft says whether a server has neither processes nor files of agents.
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
	w.fails(1, "UNKNOWN_SERVER", "install", "beacon@1.0.0", "--on", "bravo")
	w.ok("server", "forget", "bravo")
	w.holds()
	w.equalViews()
}

func TestALostServerIsGoneAtOnce(t *testing.T) {
	w := newWorld(t, fleet.Options{}, "alpha", "bravo")
	w.ok("install", "beacon@1.0.0", "--on", "all")
	w.converges("1.0.0")
	w.fails(1, "SERVER_ONLINE", "server", "decommission", "bravo", "--lost", "--yes")
	if err := w.servers[1].Executor.Kill(); err != nil {
		t.Fatal(err)
	}
	w.eventually("it may be called lost", func() error {
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
	w.servers = w.servers[:1]
	w.converges("1.0.0")
	w.holds()
}
