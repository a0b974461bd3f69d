package servers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

func TestADecommissionedServerLeavesNothing(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	gone := w.Servers[1]
	w.OK("server", "decommission", "bravo", "--yes")
	w.Eventually("nothing is left on it", func() error { return gone.NothingLeft() })
	w.Servers = w.Servers[:1]
	w.Converges("1.0.0")

	// The end of its instances and its death are one step: next to each other, at one time.
	var step []string
	for _, f := range w.Facts() {
		switch f.Body.(type) {
		case *instancev1.Gone, *serverv1.Dead:
			step = append(step, fmt.Sprintf("%s %d", f.Name(), f.Sequence))
		}
	}
	if len(step) != 2 {
		t.Errorf("the step is %v, want one instance gone and one server dead", step)
	}
	// A person made the machine, so the executor uninstalls itself, and reports it before.
	w.Eventually("its root is gone", func() error { return scenario.NothingAt(gone.Root) })
	w.Eventually("its last receipt is recorded", func() error { return w.leaked("bravo", false) })
	w.Fails(1, "UNKNOWN_SERVER", "install", "beacon@1.0.0", "--on", "bravo")
	w.OK("server", "forget", "bravo", "--yes")
	w.Holds()
	w.EqualViews()
}

// leaked returns an error unless a dead server is listed, or not, as one with possible remains.
func (w *world) leaked(name string, want bool) error {
	list := w.OK("server", "list", "--leaked")
	if strings.Contains(list, name) != want {
		return fmt.Errorf("leaked servers:\n%s", list)
	}
	return nil
}

func TestAProvisionedServerRestsWhenItIsDead(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{})}
	s, err := w.EnrollServer(t.Context(), "cloud", "--provisioned")
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, s.Executor.Start())
	w.Eventually("it is online", func() error { return w.says(`"presence": "online"`, "server", "list", "-o", "json") })
	w.OK("install", "beacon@1.0.0", "--on", "cloud")
	w.OK("server", "decommission", "cloud", "--yes")
	w.Eventually("nothing is left on it", func() error { return s.NothingLeft() })
	w.Eventually("its executor rests", func() error {
		out, err := w.ExecutorStatus(s.Root)
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
	if out := w.OK(args...); !strings.Contains(out, word) {
		return fmt.Errorf("no %s in:\n%s", word, out)
	}
	return nil
}

func TestALostServerIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	w.Fails(1, "SERVER_ONLINE", "server", "decommission", "bravo", "--lost", "--yes")
	scenario.Must(t, w.Servers[1].Executor.Kill())
	w.Eventually("it may be declared lost", func() error {
		_, err := w.CLI(t.Context(), "server", "decommission", "bravo", "--lost", "--yes")
		return err
	})
	// The machine is not really lost here: end the agent that outlives its executor.
	pids, err := w.Servers[1].AgentProcesses()
	if err != nil || len(pids) != 1 {
		t.Fatalf("agents of the lost server: %v, %v; want one", pids, err)
	}
	scenario.Must(t, syscall.Kill(pids[0], syscall.SIGKILL))
	lost := w.Servers[1]
	w.Servers = w.Servers[:1]
	w.Converges("1.0.0")
	w.Holds()
	if err := w.leaked("bravo", true); err != nil {
		t.Error(err)
	}
	// It was not lost after all: it connects, reads that it is dead, and uninstalls itself.
	scenario.Must(t, lost.Executor.Start())
	w.Eventually("its root is gone", func() error { return scenario.NothingAt(lost.Root) })
	w.Eventually("it is no longer leaked", func() error { return w.leaked("bravo", false) })
}
