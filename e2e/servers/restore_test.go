package servers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// states returns what the CLI shows of each server's state, by name.
func (w *world) states() map[string]string {
	w.T.Helper()
	out := map[string]string{}
	for line := range strings.Lines(w.OK("server", "list", "--no-headers", "--columns", "name,state")) {
		if f := strings.Fields(line); len(f) == 2 {
			out[f[0]] = f[1]
		}
	}
	return out
}

// shows waits until a server's state holds a word.
func (w *world) shows(server, word string) {
	w.T.Helper()
	w.Eventually(server+" is "+word, func() error {
		if have := w.states()[server]; !slices.Contains(strings.Split(have, ","), word) {
			return fmt.Errorf("%s is %s", server, have)
		}
		return nil
	})
}

// losses is the answer of garrison restore.
type losses struct {
	Losses []struct {
		Server struct{ Name string }
		Agents []struct {
			Agent, Change string
			Wanted, Found struct{ Version string }
		}
	}
	Unknown []struct{ ServerId, Code string }
	Offline []struct{ Name string }
}

// text writes a line for each loss, sorted.
func (l losses) text() string {
	var lines []string
	for _, s := range l.Losses {
		lines = append(lines, "ahead "+s.Server.Name)
		for _, a := range s.Agents {
			lines = append(lines,
				strings.Join([]string{s.Server.Name, a.Agent, a.Change, a.Found.Version, a.Wanted.Version}, " "))
		}
	}
	for _, u := range l.Unknown {
		lines = append(lines, "unknown "+u.Code)
	}
	for _, o := range l.Offline {
		lines = append(lines, "offline "+o.Name)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// copyData copies garrisond's data directory, to which no process may write meanwhile.
func copyData(t *testing.T, from, to string) {
	t.Helper()
	scenario.Must(t, os.RemoveAll(to))
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// runs returns the version that answers on a server; empty without an answer.
func (w *world) runs(s *rig.Server) string {
	got, _ := s.Get(w.T.Context(), "/")
	return got
}

// listsLosses waits until the losses of the restored ledger are listed.
func (w *world) listsLosses(want string) {
	w.Eventually("the losses are listed", func() error {
		var l losses
		if err := json.Unmarshal([]byte(w.OK("restore", "-o", "json")), &l); err != nil {
			return err
		}
		if have := l.text(); have != want {
			return errors.New(have)
		}
		return nil
	})
}

// Servers that are ahead of a restored ledger are listed and keep what they run until an operator decides.
func TestARestoredBackupIsNoticedAndNothingGoesBackByItself(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo", "charlie", "delta")}
	alpha, bravo, charlie := w.Servers[0], w.Servers[1], w.Servers[2]
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	backup := filepath.Join(w.Dir, "backup")
	w.garrisond(w.Garrisond.Stop)
	copyData(t, w.DataDir(), backup)
	w.garrisond(func() error { return w.Start(t.Context()) })
	for _, name := range []string{"alpha", "bravo", "charlie", "delta"} {
		w.shows(name, "online")
	}

	w.OK("up", "beacon@2.0.0", "--on", "alpha,bravo", "--yes")
	w.OK("remove", "beacon", "--on", "charlie", "--yes")
	w.OK("server", "decommission", "delta", "--yes")
	if _, err := w.AddServer(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	w.shows("echo", "online")
	if err := bravo.Executor.Kill(); err != nil { // its agent runs on
		t.Fatal(err)
	}
	applied := len(w.Facts())
	scenario.Must(t, w.Garrisond.Kill())
	copyData(t, backup, w.DataDir())
	w.garrisond(func() error { return w.Start(t.Context()) })

	w.shows("alpha", "ahead")
	w.shows("charlie", "ahead")
	want := "ahead alpha\nahead charlie\nalpha beacon replace 2.0.0 1.0.0\n" +
		"charlie beacon install  1.0.0\noffline bravo\noffline delta\nunknown UNKNOWN_SERVER"
	w.listsLosses(want)
	w.explainsAhead(alpha)
	if out := w.OK("server", "list", "--unknown"); !strings.Contains(out, "UNKNOWN_SERVER") {
		t.Errorf("the server that enrolled after the backup is not listed:\n%s", out)
	}
	w.OK("up", "beacon@2.0.0", "--on", "charlie", "--yes", "--detach")
	w.Eventually("the task says what it waits for", func() error {
		if out := w.OK("task", "list", "-o", "json"); !strings.Contains(out, "ahead of the ledger") {
			return errors.New(out)
		}
		return nil
	})

	// The server that was off returns when the ledger and its own document have grown past what it applied.
	for n := 0; len(w.Facts()) <= applied+2; n++ {
		w.OK("server", "set", "alpha", fmt.Sprintf("n=%d", n))
	}
	w.OK("server", "set", "bravo", "rack=new")
	scenario.Must(t, bravo.Executor.Start())
	w.shows("bravo", "ahead")
	if a, b, c := w.runs(alpha), w.runs(bravo), w.runs(charlie); a != "2.0.0" || b != "2.0.0" || c != "" {
		t.Errorf("before the decision alpha runs %q, bravo %q and charlie %q", a, b, c)
	}

	w.accepts(alpha, bravo, charlie)
	w.Fails(1, "NOT_AHEAD", "restore", "accept", "--on", "all", "--yes")
}

// garrisond stops or starts the control plane.
func (w *world) garrisond(do func() error) {
	w.T.Helper()
	scenario.Must(w.T, do())
}

// explainsAhead checks that the CLI, and the executor on its machine, explain a server that is ahead.
func (w *world) explainsAhead(s *rig.Server) {
	w.T.Helper()
	w.Eventually("the executor reports that it does not follow the ledger", func() error {
		out, err := w.ExecutorStatus(s.Root)
		if err != nil || !strings.Contains(string(out), "LEDGER_BEHIND") {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	health := exec.CommandContext(w.T.Context(), filepath.Join(scenario.Bin, "executor"), "health", "--root", s.Root)
	if err := health.Run(); err == nil {
		w.T.Error("the executor that does not follow the ledger reports that it is healthy")
	}
	if out := w.OK("explain", s.Name); !strings.Contains(out, "LEDGER_BEHIND") ||
		!strings.Contains(out, "garrison restore") {
		w.T.Errorf("explained as:\n%s", out)
	}
}

// accepts accepts every loss, and waits until the servers follow the ledger.
func (w *world) accepts(alpha, bravo, charlie *rig.Server) {
	w.T.Helper()
	before := len(w.Facts())
	if out := w.OK("restore", "accept", "--on", "all", "--dry-run"); !strings.Contains(out, "2.0.0 → 1.0.0") {
		w.T.Errorf("the plan is:\n%s", out)
	}
	w.OK("restore", "accept", "--on", "all", "--yes")
	raised := 0
	for _, f := range w.Facts()[before:] {
		if b, ok := f.Body.(*serverv1.EpochRaised); ok {
			if raised++; b.GetEpoch() != 2 || f.Actor == "" || f.Actor == "registry" {
				w.T.Errorf("epoch %d was raised by %q", b.GetEpoch(), f.Actor)
			}
		}
	}
	if raised != 3 {
		w.T.Errorf("%d epochs were raised", raised)
	}
	w.Eventually("the servers follow the ledger", func() error {
		if a, b, c := w.runs(alpha), w.runs(bravo), w.runs(charlie); a != "1.0.0" || b != "1.0.0" || c != "2.0.0" {
			return fmt.Errorf("alpha runs %q, bravo %q and charlie %q", a, b, c)
		}
		for name, state := range w.states() {
			if strings.Contains(state, "ahead") || strings.Contains(state, "suspended") {
				return fmt.Errorf("%s is %s", name, state)
			}
		}
		return nil
	})
}

// A server that was offline while its document changed more often than a lineage is long does not count as ahead of the
// ledger.
func TestAServerThatWasOfflineForLongTakesItsDocument(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	scenario.Must(t, w.Servers[0].Executor.Kill())
	for n := range 20 {
		w.OK("server", "set", "alpha", fmt.Sprintf("n=%d", n))
	}
	scenario.Must(t, w.Servers[0].Executor.Start())
	began := time.Now()
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
	t.Logf("it applied its document %s after its start", time.Since(began).Round(100*time.Millisecond))
	for _, f := range w.Facts() {
		if _, ok := f.Body.(*serverv1.Ahead); ok {
			t.Error("it counts as ahead")
		}
	}
	w.Holds()
	w.EqualViews()
}
