package self_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// running returns what runs on a server: the versions that it reports of itself and its agent, and their processes.
func (w *world) running(s *rig.Server) string {
	w.T.Helper()
	status, err := w.ExecutorStatus(s.Root)
	scenario.Must(w.T, err)
	_, own, _ := strings.Cut(string(status), "version ")
	own, _, _ = strings.Cut(own, ",")
	version, err := s.Get(w.T.Context(), "/")
	scenario.Must(w.T, err)
	pid, err := s.Get(w.T.Context(), "/pid")
	scenario.Must(w.T, err)
	return fmt.Sprintf("executor process %d, %s; agent %s, process %s", s.Executor.Pid(), own, version, pid)
}

// wanted counts the decisions that bring something to servers.
func (w *world) wanted() (n int) {
	for _, f := range w.Facts() {
		if f.Noun == ledger.Task || f.Noun == ledger.Intent || f.Noun == ledger.Instance && f.Name() == "wanted" {
			n++
		}
	}
	return n
}

// A version changes only when a person asks for that.
func TestNoVersionChangesUnasked(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	alpha := w.Servers[0]
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	w.OK("agent", "create", "executor", "--kind", "self")
	w.OK("channel", "create", "edge")
	before, decided := w.running(alpha), w.wanted()

	newer := filepath.Join(w.Dir, "executor-9.1.0", "executor")
	for _, c := range []struct {
		what string
		do   func()
	}{
		{"a newer image is imported and activated", func() { w.Image("3.0.0", "") }},
		{"it is promoted to another channel", func() {
			w.OK("image", "promote", "beacon@3.0.0", "--channel", "edge", "--yes")
		}},
		{"a newer executor is imported and activated", func() { w.executorImage("9.1.0", builtAs("9.1.0")) }},
		{"the control plane restarts", func() {
			scenario.Must(t, w.Garrisond.Stop())
			scenario.Must(t, w.Garrisond.Start())
			scenario.Must(t, w.WaitReady(t.Context()))
		}},
		{"a server enrols, with a newer executor", func() {
			bravo, err := w.EnrollServer(t.Context(), "bravo")
			scenario.Must(t, err)
			bravo.Executor.Use(newer)
			scenario.Must(t, bravo.Executor.Start())
			w.runsExecutor(bravo, "9.1.0")
		}},
		{"its executor restarts", func() {
			bravo := w.Fleet.Servers()[1]
			scenario.Must(t, bravo.Executor.Stop())
			scenario.Must(t, bravo.Executor.Start())
			w.runsExecutor(bravo, "9.1.0")
		}},
		{"what is newer is asked for", func() {
			if list := w.OK("image", "list", "--newer"); !strings.Contains(list, "3.0.0") {
				t.Errorf("it is not listed:\n%s", list)
			}
		}},
	} {
		c.do()
		if now := w.running(alpha); now != before {
			t.Errorf("after this: %s\n%s\nbefore: %s", c.what, now, before)
		}
		if n := w.wanted(); n != decided {
			t.Errorf("after this: %s\n%d decisions, %d before", c.what, n, decided)
		}
	}
	w.Holds()
	if n := w.wanted(); n != decided {
		t.Errorf("at the end: %d decisions, %d before", n, decided)
	}
	w.OK("up", "beacon", "--on", "alpha", "--yes") // and when it is asked for, it changes
	w.Answers("3.0.0")
}
