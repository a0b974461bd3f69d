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
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// A version that fails its health check is rolled back: the old one answers, and the task says why. After a first
// install that fails, nothing is left.
func TestAVersionThatFailsItsHealthCheckIsRolledBack(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	for i, c := range []struct{ misbehave, ask, before string }{
		{"exit", "install beacon@%s --on all", ""},
		{"exit", "up beacon@%s --on all --yes", "1.0.0"},
		{"exit-later", "up beacon@%s --on all --yes", "1.0.0"},
		{"never-ready", "up beacon@%s --on all --yes", "1.0.0"},
	} {
		t.Run(c.misbehave+" after "+c.before, func(t *testing.T) {
			w.T = t
			version := fmt.Sprintf("3.0.%d", i)
			w.Image(version, c.misbehave)
			w.Fails(1, "undone", strings.Fields(fmt.Sprintf(c.ask, version))...)
			if c.before == "" {
				w.Eventually("nothing is left", w.Servers[0].NothingLeft)
				w.OK("up", "beacon@1.0.0", "--on", "all", "--yes")
				w.Converges("1.0.0")
				return
			}
			w.Answers(c.before)
			rows, err := w.Instances(agentv1.Kind_KIND_DAEMON)
			if err != nil || len(rows) != 1 || rows[0].GetObserved().GetVersion() != c.before {
				t.Errorf("the instance is %+v (%v), want %s observed", rows, err, c.before)
			}
			w.Converges(c.before) // what was there before is wanted again
		})
	}
	w.T = t
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
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
	scenario.Must(t, s.Executor.Kill())
	w.Eventually("it is offline", func() error { return w.presenceIs("alpha", "offline") })
	w.Answers("1.0.0")
	scenario.Must(t, s.Executor.Start())
	w.Eventually("it is online", func() error { return w.presenceIs("alpha", "online") })
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
