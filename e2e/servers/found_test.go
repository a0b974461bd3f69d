package servers_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/scenario"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// shown is the list of unmanaged agents of a server, as the CLI prints it.
type shown struct {
	Found []struct{ Agent, Trace, Version, Path, Since string }
}

func (w *world) found(server string) (s shown) {
	w.T.Helper()
	scenario.Must(w.T, json.Unmarshal([]byte(w.OK("server", "show", server, "-o", "json")), &s))
	return s
}

// finds waits until the CLI lists want unmanaged agents on a server, and returns how long that took.
func (w *world) finds(server string, want int) time.Duration {
	w.T.Helper()
	began := time.Now()
	w.Eventually(fmt.Sprintf("%d are found on %s", want, server), func() error {
		if have := w.found(server); len(have.Found) != want {
			return fmt.Errorf("found %v", have)
		}
		listed := w.OK("server", "list", "--found", "-o", "name")
		if (strings.TrimSpace(listed) == server) != (want > 0) {
			return fmt.Errorf("listed %q", listed)
		}
		return nil
	})
	took := time.Since(began)
	w.T.Logf("%d found after %s", want, took.Round(time.Millisecond))
	return took
}

// lists counts the facts about unmanaged agents.
func (w *world) lists() (n int) {
	for _, f := range w.Facts() {
		if _, ok := f.Body.(*serverv1.AgentsFound); ok {
			n++
		}
	}
	return n
}

// image1 returns the directory of version 1.0.0 on a server, which is not the current one.
func image1(t *testing.T, s *rig.Server) string {
	t.Helper()
	current, err := filepath.EvalSymlinks(filepath.Join(s.Root, "agents", "beacon", "current"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := os.ReadDir(filepath.Dir(current))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(images, func(d os.DirEntry) bool {
		_, err := hex.DecodeString(d.Name())
		return err == nil && d.Name() != filepath.Base(current)
	})
	if i < 0 {
		t.Fatalf("no other image in %v", images)
	}
	return filepath.Join(s.Root, "images", images[i].Name())
}

// What an administrator puts on a server is listed while it exists, is never touched, and is
// two facts: it came, and it went.
func TestALinkMadeByHandIsFoundAndNotTouched(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
	if n := w.lists(); n != 0 {
		t.Errorf("%d facts about unmanaged agents, want none", n)
	}
	alpha := w.Servers[0]
	old := filepath.Join(alpha.Root, "agents", "old-agent")
	scenario.Must(t, os.MkdirAll(old, 0o755))
	link := filepath.Join(old, "current")
	scenario.Must(t, os.Symlink(filepath.Join("..", "..", "images", filepath.Base(image1(t, alpha))), link))

	if took := w.finds("alpha", 1); took > time.Minute {
		t.Errorf("shown after %s, want within a minute", took)
	}
	if f := w.found("alpha").Found[0]; f.Agent != "old-agent" || f.Trace != "link" || f.Version != "1.0.0" ||
		f.Path != "agents/old-agent/current" ||
		f.Since == "" {
		t.Errorf("shown as %v", f)
	}
	if out := w.OK("explain", "alpha"); !strings.Contains(out, "FOUND_LINK") ||
		!strings.Contains(out, "rm agents/old-agent/current") {
		t.Errorf("explained as:\n%s", out)
	}
	w.OK("server", "refresh", "alpha")
	w.OK("up", "beacon@1.0.0", "--on", "all", "--yes")
	w.Converges("1.0.0")
	scenario.Must(t, alpha.Executor.Kill())
	scenario.Must(t, alpha.Executor.Start())
	w.Converges("1.0.0")
	w.finds("alpha", 1)
	if _, err := os.Readlink(link); err != nil {
		t.Errorf("the link was touched: %v", err)
	}

	scenario.Must(t, os.RemoveAll(old))
	w.finds("alpha", 0)
	if n := w.lists(); n != 2 {
		t.Errorf("%d facts of one that came and went, want 2", n)
	}
	w.Holds()
	w.EqualViews()
}

func TestAProcessStartedByHandIsFoundAndNotTouched(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	w.OK("up", "beacon@2.0.0", "--on", "all", "--yes")
	w.Converges("2.0.0")
	alpha := w.Servers[0]
	var started []*exec.Cmd
	for range 3 {
		c := exec.Command(filepath.Join(image1(t, alpha), "beacon"), "-listen", "127.0.0.1:0", "-version", "by-hand")
		scenario.Must(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		started = append(started, c)
	}
	w.finds("alpha", 1)
	if f := w.found("alpha").Found[0]; f.Agent != "beacon" || f.Trace != "process" || f.Version != "1.0.0" {
		t.Errorf("shown as %v", f)
	}
	// One process fewer of the same kind is not a new fact.
	_ = started[0].Process.Kill()
	_ = started[0].Wait()
	w.OK("server", "refresh", "alpha")
	for _, c := range started[1:] {
		if err := c.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("process %d was touched: %v", c.Process.Pid, err)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	w.finds("alpha", 0)
	w.Converges("2.0.0")
	if n := w.lists(); n != 2 {
		t.Errorf("%d facts of one that came and went, want 2", n)
	}
	w.Holds()
	w.EqualViews()
}

// Unmanaged agents stay on a server that is decommissioned, and are counted.
func TestWhatWasFoundOutlivesTheServer(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	alpha := w.Servers[0]
	link := filepath.Join(alpha.Root, "agents", "old-agent", "current")
	scenario.Must(t, os.MkdirAll(filepath.Dir(link), 0o755))
	scenario.Must(t, os.Symlink("/usr", link))
	w.finds("alpha", 1)
	w.OK("server", "decommission", "alpha", "--yes")
	w.Eventually("its last receipt is recorded",
		func() error { return w.says(`"leftPaths"`, "server", "show", "alpha", "-o", "json") })
	if f := w.found("alpha").Found; len(f) != 0 {
		t.Errorf("a dead server has %v", f)
	}
	w.Eventually("its executor has ended",
		func() error { return scenario.NothingAt(filepath.Join(alpha.Root, "executor", "journal.db")) })
	if target, err := os.Readlink(link); err != nil || target != "/usr" {
		t.Errorf("the link was touched: %s, %v", target, err)
	}
	w.Servers = nil
	w.Holds()
	w.EqualViews()
}
