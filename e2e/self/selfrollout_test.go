package self_test

import (
	"encoding/json"
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
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// trait returns what builds an executor for tests that misbehaves, as testdata/self reads it.
func trait(json string) func(path string) error {
	return func(path string) error {
		const program = "github.com/garrison-fleet/garrison/services/executor/testdata/self"
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return os.WriteFile(filepath.Join(filepath.Dir(path), "trait.json"), []byte(json), 0o600)
	}
}

// keptUp starts the executors again whenever they end, as a service manager does, until the test ends.
func (w *world) keptUp() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	w.T.Cleanup(func() {
		close(stop)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			for _, s := range w.Servers {
				if s.Executor.Running() {
					continue
				}
				if err := s.Executor.Revive(); err != nil {
					w.T.Error(err)
					return
				}
			}
		}
	}()
}

// ran is a rollout as the CLI prints it.
type ran struct {
	Waves []struct{ OpenedAt string }
}

// haltsInItsFirstWave starts a rollout of the executor that must halt before its second wave begins.
func (w *world) haltsInItsFirstWave(version string) (rollout string) {
	w.T.Helper()
	w.Fails(6, "TOO_MANY_BROKEN", "rollout", "start", "executor@"+version, "--on", "all",
		"--waves", "2", "--max-broken", "1", "--soak", "1m", "--silence", "5s", "--yes")
	id := strings.TrimSpace(w.OK("rollout", "list", "--state", "halted", "-o", "name"))
	var r ran
	out := w.OK("rollout", "show", id, "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.T.Fatalf("%v\n%s", err, out)
	}
	if len(r.Waves) != 2 || r.Waves[1].OpenedAt != "" {
		w.T.Errorf("the second wave began: %s", out)
	}
	return id
}

// blocked waits until a build of the executor is blocked.
func (w *world) blocked(version string) {
	w.T.Helper()
	w.Eventually("executor "+version+" is blocked", func() error {
		if out := w.OK("block", "list"); !strings.Contains(out, version) {
			return errors.New(out)
		}
		return nil
	})
	w.Fails(1, "BLOCKED", "up", "executor@"+version, "--on", "all", "--yes")
}

// allRun waits until every server runs a version of the executor and lists it as converged.
func (w *world) allRun(version string) {
	w.T.Helper()
	for _, s := range w.Servers {
		w.runsExecutor(s, version)
	}
	w.Eventually("the executor is converged at "+version, func() error {
		rows, err := w.Instances(agentv1.Kind_KIND_SELF)
		if err == nil && len(rows) != len(w.Servers) {
			err = fmt.Errorf("%d executors on %d servers", len(rows), len(w.Servers))
		}
		for _, r := range rows {
			at := r.GetObserved().GetVersion()
			if r.GetState() != instancev1.State_STATE_CONVERGED || at != version {
				err = errors.Join(err, fmt.Errorf("an executor is %s at %q: %s", r.GetState(), at, r.GetReason()))
			}
		}
		return err
	})
}

// watchdog kills executors whose servers are offline until every server is online, as a service manager ends a program
// that hangs.
func (w *world) watchdog() {
	w.T.Helper()
	w.Eventually("every server is online again", func() error {
		out := w.OK("server", "list", "-o", "json")
		var list struct {
			Servers []struct{ Name, Presence string }
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			w.T.Fatalf("%v\n%s", err, out)
		}
		var offline error
		for _, is := range list.Servers {
			if is.Presence == "online" {
				continue
			}
			offline = errors.Join(offline, fmt.Errorf("%s is %s", is.Name, is.Presence))
			for _, s := range w.Servers {
				if s.Name == is.Name {
					offline = errors.Join(offline, s.Executor.Kill())
				}
			}
		}
		return offline
	})
}

// A rollout replaces executors in waves. A build that does not start, one that works in its trial and ends later, and
// one that hangs after it, halt it in the first wave; the servers of that wave are back at the version before, and the
// build is blocked.
func TestARolloutOfTheExecutorHaltsAtABadBuild(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo", "charlie")}
	w.keptUp()
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	pids := map[*rig.Server]string{}
	for _, s := range w.Servers {
		pid, err := s.Get(t.Context(), "/pid")
		if err != nil {
			t.Fatal(err)
		}
		pids[s] = pid
	}
	w.OK("agent", "create", "executor", "--kind", "self")
	w.executorImage("9.1.0", builtAs("9.1.0"))
	w.executorImage("9.2.0", builtAs("9.2.0"))
	w.executorImage("9.3.0", trait(`{"Version": "9.3.0", "Crash": "rehearse"}`))
	w.executorImage("9.4.0", trait(`{"Version": "9.4.0", "Late": true}`))
	w.executorImage("9.5.0", trait(`{"Version": "9.5.0", "Hang": "run"}`))

	w.OK("rollout", "start", "--install", "executor@9.1.0", "--on", "all", "--canaries", "1", "--yes")
	w.allRun("9.1.0")
	w.OK("rollout", "start", "executor@9.2.0", "--on", "all", "--canaries", "1", "--waves", "1", "--yes")
	w.allRun("9.2.0")

	for _, version := range []string{"9.3.0", "9.4.0", "9.5.0"} {
		id := w.haltsInItsFirstWave(version)
		w.watchdog()
		w.allRun("9.2.0")
		w.blocked(version)
		w.OK("rollout", "abort", id, "-m", "a bad build")
	}
	for _, s := range w.Servers {
		if pid, err := s.Get(t.Context(), "/pid"); err != nil || pid != pids[s] {
			t.Errorf("the agent's process on %s is %s (%v), was %s", s.Name, pid, err, pids[s])
		}
	}
	w.Holds()
}
