package servers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/topology"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// suspended waits until the bus has dropped a server's executor and refuses it, and its agent answers still.
func (w *world) suspended(s *rig.Server, version string) {
	w.T.Helper()
	w.Reports(s.Root, "suspended", "LOGIN_REVOKED")
	if got, err := s.Get(w.T.Context(), "/"); err != nil || got != version {
		w.T.Errorf("the agent on %s answers %q (%v), want %q", s.Name, got, err, version)
	}
}

// copyOf copies what a server logs in with into another root.
func (w *world) copyOf(s *rig.Server) (root string) {
	w.T.Helper()
	root = filepath.Join(w.Dir, "copy of "+s.Name)
	scenario.Must(w.T, os.MkdirAll(filepath.Join(root, "executor"), 0o700))
	for _, name := range []string{"identity.json", "key.seed"} {
		data, err := os.ReadFile(filepath.Join(s.Root, "executor", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(root, "executor", name), data, 0o600)
		}
		if err != nil {
			w.T.Fatal(err)
		}
	}
	return root
}

func TestAQuarantinedServerIsOutUntilItsRelease(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "alpha")
	w.Converges("1.0.0")
	alpha := w.Servers[0]
	w.OK("server", "quarantine", "alpha", "-m", "odd traffic", "--yes")
	w.suspended(alpha, "1.0.0")
	w.shows("alpha", "quarantined")
	w.shows("alpha", "offline")
	if err := w.says("odd traffic", "explain", "alpha"); err != nil {
		t.Error(err)
	}
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes", "--detach")
	if err := w.says("quarantined", "task", "list", "--server", "alpha"); err != nil {
		t.Error(err)
	}

	// A start of the executor does not let it in again.
	scenario.Must(t, alpha.Executor.Stop())
	scenario.Must(t, alpha.Executor.Start())
	w.Reports(alpha.Root, "suspended", "LOGIN_DENIED")
	w.OK("server", "release", "alpha", "--yes")
	w.Converges("2.0.0")
	w.shows("alpha", "online")
}

// untilTask waits until a task of a server to a version of beacon is as the CLI lists it.
func (w *world) untilTask(what, version, state string) {
	w.T.Helper()
	w.Eventually(what, func() error {
		for _, task := range w.tasks() {
			if task.To.Version == version && task.State == state {
				return nil
			}
		}
		return fmt.Errorf("the tasks are %+v", w.tasks())
	})
}

// A success that a server reports while it is quarantined, because the bus still takes that, does not count. The server
// reports it again after its release, so that the change is neither lost nor done a second time.
func TestASuccessReportedInQuarantineCountsAfterTheRelease(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Apart: true}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "alpha")
	w.Converges("1.0.0")
	alpha, access := w.Servers[0], w.Services[topology.UserAccess]
	scenario.Must(t, access.Stop()) // without it the bus does not refuse the server
	scenario.Must(t, alpha.Executor.Pause())
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes", "--detach")
	w.untilTask("its task is assigned", "2.0.0", "assigned")
	w.OK("server", "quarantine", "alpha", "-m", "odd traffic", "--yes")
	w.OK("server", "refresh", "alpha", "--yes", "--detach")
	w.Eventually("the dispatcher knows", func() error { return w.says("quarantined", "task", "list") })
	scenario.Must(t, alpha.Executor.Resume())
	w.Eventually("the report is a dead letter", func() error {
		if log := w.Services[topology.UserDispatcher].Log(); !strings.Contains(log, "is shut out; its report on task") {
			return errors.New("no report was refused")
		}
		return nil
	})
	process := 0
	w.Eventually("the change is made", func() error { // the first report may be of its start
		text, err := alpha.Get(t.Context(), "/")
		process = w.agentIn(alpha.Root)
		if err == nil && (text != "2.0.0" || process == 0) {
			err = fmt.Errorf("process %d of the agent answers %q", process, text)
		}
		return err
	})
	w.untilTask("its task is under way still", "2.0.0", "assigned")
	if rows, err := w.inventory(); err != nil || rows["alpha"].Observed.Version != "1.0.0" {
		t.Errorf("the registry says %+v, %v", rows["alpha"], err)
	}

	scenario.Must(t, access.Start())
	w.suspended(alpha, "2.0.0")
	w.OK("server", "release", "alpha", "--yes")
	w.Converges("2.0.0")
	w.untilTask("its task has ended", "2.0.0", "succeeded")
	if now := w.agentIn(alpha.Root); now != process {
		t.Errorf("the agent was process %d and is %d", process, now)
	}
	ends := map[string]int{}
	for _, f := range w.Facts() {
		if _, ok := f.Body.(*taskv1.Succeeded); ok {
			ends[f.Key]++
		}
	}
	for task, times := range ends {
		if times != 1 {
			t.Errorf("task %s succeeded %d times", task, times)
		}
	}
}

func TestARevokedServerComesBackWithANewTokenOnly(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "alpha")
	w.Converges("1.0.0")
	alpha := w.Servers[0]
	stolen := w.copyOf(alpha)
	w.Fails(8, "EXISTS", "server", "enroll", "alpha")
	w.OK("server", "revoke", "alpha", "-m", "its disk was copied", "--yes")
	w.suspended(alpha, "1.0.0")
	w.shows("alpha", "revoked")
	w.Fails(8, "SERVER_REVOKED", "server", "release", "alpha", "--yes")

	// Its executor runs on while it joins again.
	scenario.Must(t, alpha.Join(t.Context(), w.OK("server", "enroll", "alpha")))
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes")
	w.Converges("2.0.0")
	w.shows("alpha", "online")
	thief := scenario.Execute(t, "run", "--root", stolen, "--beat-interval", "1s", "--supervisor", "direct")
	w.Reports(stolen, "suspended", "LOGIN_DENIED")
	thief.Kill()
}

// pushes counts how often the keys of servers that the bus refuses changed.
func (w *world) pushes() int {
	return strings.Count(w.Garrisond.Log(), `"account":"NODES"`)
}

func TestAServerThatBeatsCanBeGivenUp(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	bravo := w.Servers[1]
	w.Fails(1, "--lost --force", "server", "decommission", "bravo", "--lost", "--yes")
	if err := bravo.Executor.Pause(); err != nil { // it no longer follows a document
		t.Fatal(err)
	}
	before := w.pushes()
	w.OK("server", "decommission", "bravo", "--lost", "--force", "--yes")
	w.Eventually("it is dead", func() error {
		return w.says("bravo", "server", "list", "--life", "dead")
	})
	w.Eventually("the bus refuses it", func() error {
		if w.pushes() == before {
			return errors.New("no account was pushed")
		}
		return nil
	})
	scenario.Must(t, bravo.Executor.Resume())
	w.suspended(bravo, "1.0.0")

	// Its machine is cleaned without the bus.
	scenario.Must(t, bravo.Executor.Stop())
	file := filepath.Join(w.Dir, "dead")
	scenario.Must(t, os.WriteFile(file, []byte(w.OK("server", "clean", "bravo", "--tombstone")), 0o600))
	cleaned := scenario.Execute(t, "uninstall", "--root", bravo.Root, "--tombstone", file, "-o", "json")
	if err := cleaned.Wait(); err != nil {
		t.Errorf("clean the machine: %v", err)
	}
	w.Eventually("nothing is left on it", func() error { return scenario.NothingAt(bravo.Root) })
	w.Drop(bravo)
	w.Servers = w.Servers[:1]
	w.Converges("1.0.0")
	if n := len(w.states()); n != 1 {
		t.Errorf("%d servers are left, want alpha", n)
	}
}
