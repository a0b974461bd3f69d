package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// bin is where the programs under test are: where make built them, or a temporary
// directory in which this test run builds them first.
var bin string

var programs = map[string]string{
	"garrisond":       "deploy/allinone/cmd/garrisond",
	"garrison":        "services/operator/cmd/garrison",
	"registry":        "services/registry/cmd/registry",
	"image-catalog":   "services/image-catalog/cmd/image-catalog",
	"task-dispatcher": "services/task-dispatcher/cmd/task-dispatcher",
	"executor":        "services/executor/cmd/executor",
	"beacon":          "e2e/agents/beacon",
	"demo":            "e2e/cmd/demo",
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if bin = os.Getenv("GARRISON_BIN"); bin == "" {
		dir, err := os.MkdirTemp("", "garrison-e2e-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin = dir
		for name, src := range programs {
			build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "github.com/garrison-fleet/garrison/"+src)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
				return 1
			}
		}
	}
	return m.Run()
}

// world is a fleet in a test, with what the scenarios do again and again.
type world struct {
	*fleet.Fleet
	t       *testing.T
	servers []*fleet.Server
}

// newWorld starts a fleet of servers that ends with the test, with the agent beacon and
// its versions 1.0.0 and 2.0.0 active.
func newWorld(t *testing.T, o fleet.Options, servers ...string) *world {
	t.Helper()
	o.Bin, o.Dir = bin, shortDir(t)
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Fleet: f, t: t}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("stop the fleet: %v", err)
		}
		if t.Failed() {
			w.printLogs()
		}
	})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ok("agent", "create", "beacon", "--kind", "daemon")
	for _, v := range []string{"1.0.0", "2.0.0"} {
		w.image(v, "")
	}
	for _, name := range servers {
		s, err := f.AddServer(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, s)
	}
	w.eventually("every server is online", func() error {
		if n := strings.Count(w.ok("server", "list", "-o", "json"), "PRESENCE_ONLINE"); n != len(servers) {
			return fmt.Errorf("%d of %d are online", n, len(servers))
		}
		return nil
	})
	return w
}

// shortDir gives a directory with a short name: sockets have paths of at most 107 bytes.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "g-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (w *world) printLogs() {
	logs, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	for _, path := range logs {
		data, _ := os.ReadFile(path)
		w.t.Logf("%s (last 1,500 bytes):\n%s", filepath.Base(path), data[max(0, len(data)-1500):])
	}
}

// image builds, imports and activates a version of beacon that may misbehave.
func (w *world) image(version, misbehave string) {
	w.t.Helper()
	v := sample.Version{Version: version, Misbehave: misbehave, Ready: "3s", Soak: "1s", Stop: "2s"}
	if err := sample.Import(w.t.Context(), w.CLI, bin, w.Dir, v); err != nil {
		w.t.Fatal(err)
	}
}

// ok runs the CLI and fails the test when it does not end with 0.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, err := w.CLI(w.t.Context(), args...)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// fails runs the CLI and fails the test unless it ends with code and says so.
func (w *world) fails(code int, says string, args ...string) {
	w.t.Helper()
	_, err := w.CLI(w.t.Context(), args...)
	e, ok := errors.AsType[*fleet.CLIError](err)
	if !ok || e.Code != code || !strings.Contains(e.Stderr, says) {
		w.t.Errorf("garrison %s: %v; want exit code %d and %q", strings.Join(args, " "), err, code, says)
	}
}

func (w *world) eventually(what string, done func() error) {
	w.t.Helper()
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		if err = done(); err == nil {
			return
		}
	}
	w.t.Fatalf("not within a minute: %s: %v", what, err)
}

// instance is what the CLI says of an instance.
type instance struct {
	State    string
	Observed struct{ Version string }
	Reason   string
}

func (w *world) instances() ([]instance, error) {
	out, err := w.CLI(w.t.Context(), "instance", "list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct{ Instances []struct{ Instance instance } }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	var rows []instance
	for _, i := range list.Instances {
		rows = append(rows, i.Instance)
	}
	return rows, nil
}

// converges waits until every server's instance is converged at version and its agent answers so.
func (w *world) converges(version string) {
	w.t.Helper()
	w.eventually("every instance is converged at "+version, func() error {
		rows, err := w.instances()
		if err != nil {
			return err
		}
		if len(rows) != len(w.servers) {
			return fmt.Errorf("%d instances on %d servers", len(rows), len(w.servers))
		}
		for _, r := range rows {
			if r.State != "STATE_CONVERGED" || r.Observed.Version != version {
				return fmt.Errorf("an instance is %s at %q: %s", r.State, r.Observed.Version, r.Reason)
			}
		}
		return nil
	})
	w.answers(version)
}

func (w *world) answers(version string) {
	w.t.Helper()
	for _, s := range w.servers {
		if got, err := s.Get(w.t.Context(), "/"); err != nil || got != version {
			w.t.Errorf("the agent on %s answers %q (%v), want %q", s.Name, got, err, version)
		}
	}
}

// operator connects as the first operator.
func (w *world) operator() *bus.Conn {
	w.t.Helper()
	c, err := trust.ReadContext(w.ContextFile())
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := bus.Dial(bus.Options{URL: c.URL, Name: c.Actor, API: topology.OpsAPI, Credentials: c.Credentials, Log: zerolog.Nop()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// facts reads the whole ledger.
func (w *world) facts() []ledger.Fact {
	w.t.Helper()
	conn := w.operator()
	var facts []ledger.Fact
	for {
		msgs, err := conn.DirectGetFrom(w.t.Context(), topology.Ledger, "garrison.ledger.>", uint64(len(facts))+1, 500)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range msgs {
			f, err := ledger.Decode(m.Subject, m.Header, m.Data, m.Sequence)
			if err != nil {
				w.t.Fatal(err)
			}
			facts = append(facts, f)
		}
		if len(msgs) < 500 {
			return facts
		}
	}
}

// holds waits until nothing is under way and checks every invariant. Each scenario ends
// with that, by Close; one calls it in its middle to be sure there.
func (w *world) holds() {
	w.t.Helper()
	if err := w.Verify(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

// within gives a context for one step of a scenario.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
