package servers_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A host is renamed, and distinguished from a copy of it.
func TestOneCommandDistinguishesARenamedHostFromItsCopy(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	alpha := w.Servers[0]

	w.Fails(8, "EXISTS", "server", "set", "alpha", "--name", "bravo")
	w.OK("server", "set", "alpha", "--name", "first")
	w.shows("first", "online")

	// One command distinguishes it from its copy: the machine that joins with the token is kept.
	copied := filepath.Join(w.Dir, "copy")
	scenario.Must(t, alpha.Executor.Kill())
	copyData(t, alpha.Root, copied)
	scenario.Must(t, alpha.Executor.Start())
	clone := scenario.Execute(t, "run", "--root", copied, "--beat-interval", "1s", "--supervisor", "direct")
	w.shows("first", "duplicate")
	if out := w.OK("server", "show", "first"); strings.Count(out, "session ") < 2 || !strings.Contains(out, "replace") {
		t.Errorf("the two machines and the way out are not shown:\n%s", out)
	}
	scenario.Must(t, alpha.Join(t.Context(), w.OK("server", "enroll", "first", "--replace", "--force", "--yes")))
	w.Reports(copied, "suspended", "LOGIN_REVOKED")
	w.Eventually("first is online and alone", func() error {
		if have := w.states()["first"]; have != "alive,online" {
			return errors.New(have)
		}
		return nil
	})
	clone.Kill()
}

// emptied returns an error unless a server has had n reinstalls that ended.
func (w *world) emptied(n int) error {
	have := 0
	for _, f := range w.Facts() {
		if f.Noun == ledger.Server && f.Name() == "reinstalled" {
			have++
		}
	}
	if have != n {
		return fmt.Errorf("%d reinstalls ended; want %d", have, n)
	}
	return nil
}

// A server is emptied under its identity, whatever happens to it meanwhile, and gets what new servers get.
func TestAReinstalledServerComesBackEmptyWithItsDefaults(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	alpha := w.Servers[0]
	w.OK("env", "create", "prod")
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	w.OK("up", "beacon@2.0.0", "--on", "alpha", "--yes") // 1.0.0 is kept there

	// Without a default it stays empty.
	w.OK("server", "reinstall", "alpha", "--yes")
	w.Eventually("nothing is left on it", func() error { return alpha.NothingLeft() })
	if err := cmp.Or(w.emptied(1), w.says("alive,online", "server", "list")); err != nil {
		t.Error(err)
	}

	// A default that reaches new servers only comes to a reinstalled one; the executor was killed meanwhile.
	w.OK("server", "set", "alpha", "--env", "prod", "--yes")
	w.OK("install", "beacon@2.0.0", "--on", "alpha")
	w.OK("env", "default", "prod", "beacon@1.0.0", "--yes")
	scenario.Must(t, alpha.Executor.Kill())
	w.Eventually("it is offline", func() error { return w.says("alive,offline", "server", "list") })
	w.OK("server", "reinstall", "alpha", "--yes", "--detach")
	w.Eventually("it waits for the server", func() error {
		return w.says("alpha to come back", "explain", "alpha")
	})
	w.Fails(1, "SERVER_REINSTALLING", "install", "beacon@2.0.0", "--on", "alpha")
	scenario.Must(t, alpha.Executor.Start())
	w.Converges("1.0.0")
	if err := w.emptied(2); err != nil {
		t.Error(err)
	}

	// The machine is set up anew meanwhile: nothing but its identity is left of it.
	scenario.Must(t, alpha.Executor.Kill())
	w.Eventually("it is offline", func() error { return w.says("alive,offline", "server", "list") })
	w.OK("server", "reinstall", "alpha", "--yes", "--detach")
	wipe(t, alpha)
	scenario.Must(t, alpha.Executor.Start())
	w.Eventually("it answered", func() error { return w.emptied(3) })
	w.Converges("1.0.0")
	w.Holds()
	w.EqualViews()
}

// wipe ends the agents of a server whose executor does not run, and deletes everything but its identity.
func wipe(t *testing.T, s *rig.Server) {
	t.Helper()
	pids, err := s.AgentProcesses()
	for _, pid := range pids {
		err = cmp.Or(err, syscall.Kill(pid, syscall.SIGKILL))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"agents", "images", "cache"} {
		scenario.Must(t, removeSealed(filepath.Join(s.Root, dir)))
	}
	own, err := filepath.Glob(filepath.Join(s.Root, "executor", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range own {
		switch filepath.Base(path) {
		case "identity.json", "key.seed":
		default:
			scenario.Must(t, os.RemoveAll(path))
		}
	}
}

// removeSealed deletes a directory, also where its subdirectories are read-only.
func removeSealed(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return cmp.Or(err, os.RemoveAll(dir))
}

// refused returns an error if the bus lets a server in with what its root holds.
func refused(w *world, root string) error {
	var is struct{ Jwt string }
	var key struct{ Seed string }
	for file, into := range map[string]any{"identity.json": &is, "key.seed": &key} {
		text, err := os.ReadFile(filepath.Join(root, "executor", file))
		scenario.Must(w.T, cmp.Or(err, json.Unmarshal(text, into)))
	}
	conn, err := bus.Dial(bus.Options{
		URL: w.URL(), Name: "returned", Log: zerolog.Nop(),
		Credentials: func() (string, []byte, error) { return is.Jwt, []byte(key.Seed), nil },
	})
	if err == nil {
		conn.Close()
		return errors.New("it is let in")
	}
	if !bus.LoginOf(err).Refused() {
		return err
	}
	return nil
}

// A machine whose server was decommissioned returns from a copy of its disk. It is refused with the reason, keeps its
// agents as they are, and joins again under the old name as another server once it is cleaned.
func TestADecommissionedServerThatReturnsIsRefusedAndEnrolsAnew(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "bravo")
	bravo := w.Servers[1]
	w.Eventually("its agent answers", func() error { _, err := bravo.Get(t.Context(), "/"); return err })
	returned := filepath.Join(w.Dir, "returned")
	copyData(t, bravo.Root, returned)
	dead := w.OK("server", "list", "--on", "bravo", "--columns", "id", "--no-headers", "-o", "wide")
	dead = strings.TrimSpace(dead)
	w.OK("server", "decommission", "bravo", "--yes")
	w.Eventually("its executor removed itself", func() error { return scenario.NothingAt(bravo.Root) })
	w.Drop(bravo)
	w.Servers = w.Servers[:1]

	w.Eventually("the bus lets it in no more", func() error { return refused(w, returned) })
	again := scenario.Execute(t, "run", "--root", returned, "--beat-interval", "1s", "--supervisor", "direct",
		"--stop-agents")
	w.Reports(returned, "suspended", "LOGIN_DENIED") // at a login the bus names no reason
	if list := w.OK("server", "list"); !strings.Contains(list, "alpha") || strings.Contains(list, "bravo  alive") {
		t.Errorf("the servers:\n%s", list)
	}
	again.Kill()

	// The name is free. The root still belongs to the dead server, and the refusal names the way out.
	token := w.OK("server", "enroll", "bravo")
	join := func() error {
		executor := filepath.Join(scenario.Bin, "executor")
		cmd := exec.CommandContext(t.Context(), executor, "join", "--root", returned, "--token", "-")
		cmd.Stdin = strings.NewReader(token)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := join(); err == nil || !strings.Contains(err.Error(), "OTHER_SERVER") ||
		!strings.Contains(err.Error(), "garrison server clean "+dead+" --tombstone") {
		t.Errorf("joined in the root of another server: %v", err)
	}
	file := filepath.Join(w.Dir, "tombstone")
	scenario.Must(t, os.WriteFile(file, []byte(w.OK("server", "clean", dead, "--tombstone")), 0o600))
	if err := scenario.Execute(t, "uninstall", "--root", returned, "--tombstone", file).Wait(); err != nil {
		t.Errorf("clean the machine: %v", err)
	}
	scenario.Must(t, join())
	scenario.Execute(t, "run", "--root", returned, "--beat-interval", "1s", "--supervisor", "direct",
		"--stop-agents")
	w.shows("bravo", "online")
}
