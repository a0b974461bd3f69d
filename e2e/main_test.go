package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// bin is the directory of the programs under test.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// fleetsAtOnce is how many scenarios run side by side, unless -parallel says another number. A scenario waits more than
// it computes, so that this is more than the processors of a small machine.
const fleetsAtOnce = "4"

func run(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fleetsAtOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	var err error
	if images.dir, err = os.MkdirTemp("", "garrison-e2e-images-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(images.dir) }()
	images.files = map[sample.Version]string{}
	var remove func()
	if bin, remove, err = fleet.Programs(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	return m.Run()
}

// world is a fleet in a test, with the steps that many scenarios share.
type world struct {
	*fleet.Fleet
	t       *testing.T
	servers []*fleet.Server
}

// newWorld starts a fleet of servers that ends with the test. Versions 1.0.0 and 2.0.0 of
// the agent beacon are active.
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

// shortDir returns a directory with a short name: the path of a socket has at most 107 bytes.
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

// image builds, imports and activates a version of beacon, which may misbehave.
func (w *world) image(version, misbehave string) {
	w.t.Helper()
	v := sample.Version{Version: version, Misbehave: misbehave, Ready: "1m", Soak: "500ms", Stop: "10s"}
	switch misbehave {
	case "never-ready":
		v.Ready = "2s"
	case "exit-later":
		v.Soak = "1m" // it exits after half a second, which a busy machine makes longer
	}
	w.importImage(v)
}

// images are the image files that scenarios share: each version is built once.
var images struct {
	sync.Mutex
	dir   string
	files map[sample.Version]string
}

// importImage imports and activates a version of beacon.
func (w *world) importImage(v sample.Version) {
	w.t.Helper()
	images.Lock()
	file, built := images.files[v]
	if !built {
		dir := filepath.Join(images.dir, fmt.Sprintf("%d-%s", len(images.files), v.Version))
		if err := v.Fill(bin, dir); err != nil {
			images.Unlock()
			w.t.Fatal(err)
		}
		file = dir + ".gimg"
		if out, err := w.CLI(w.t.Context(), "image", "build", dir, "-o", file); err != nil {
			images.Unlock()
			w.t.Fatalf("%v\n%s", err, out)
		}
		images.files[v] = file
	}
	images.Unlock()
	w.ok("image", "import", file, "--activate")
}

// ok runs the CLI and fails the test unless it exits with 0.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, err := w.CLI(w.t.Context(), args...)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// fails runs the CLI and fails the test unless it exits with code and prints a text.
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
	polltest.Succeeds(w.t, what, done)
}

// instance is an instance as the CLI prints it.
type instance struct {
	State    string
	Observed struct{ Version string }
	Reason   string
}

// instances returns the instances of agents of a kind.
func (w *world) instances(kind string) ([]instance, error) {
	out, err := w.CLI(w.t.Context(), "instance", "list", "--kind", kind, "-o", "json")
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
		rows, err := w.instances("daemon")
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

// client connects as the first operator.
func (w *world) client() *client.Client {
	w.t.Helper()
	c, err := w.Client(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// facts reads the whole ledger.
func (w *world) facts() (facts []ledger.Fact) {
	w.t.Helper()
	c, err := w.Client(w.t.Context(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	for e, err := range c.Events(w.t.Context(), client.Query{}) {
		if err = errors.Join(err, e.Unread); err != nil {
			w.t.Fatal(err)
		}
		facts = append(facts, e.Fact)
	}
	return facts
}

// holds waits until nothing is under way and checks every invariant. Close does the same
// at the end of each scenario; a scenario calls holds to check at an earlier point.
func (w *world) holds() {
	w.t.Helper()
	if err := w.Verify(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

// within returns a context for one step of a scenario.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
