package attack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// world is a fleet under attack.
type world struct {
	*rig.Fleet
	victim   *server // its executor runs, and the agent beacon
	operator *client.Client
	at       string // the version of beacon on the victim
	names    int
}

// server is a server of the fleet and what is on its disk.
type server struct {
	*rig.Server
	login   login
	address topology.ServerAddress
}

// newWorld starts a fleet with the victim in it.
func newWorld(t *testing.T, apart bool) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "g-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	f, err := rig.New(rig.Options{Bin: bin, Dir: dir, Apart: apart, Lobby: true, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Fleet: f, at: "1.0.0"}
	t.Cleanup(func() { w.end(t) })
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ok(t, "agent", "create", sample.Agent, "--kind", "daemon")
	versions := []sample.Version{w.version("1.0.0"), w.version("2.0.0")}
	cli := func(ctx context.Context, args ...string) (string, error) { return w.CLI(ctx, args...) }
	if err := sample.Import(t.Context(), cli, bin, dir, versions...); err != nil {
		t.Fatal(err)
	}
	w.victim = w.enrol(t)
	if err := w.victim.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	if w.operator, err = w.Client(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.operator.Close)
	w.ok(t, "install", sample.Agent+"@"+w.at, "--on", w.victim.Name)
	return w
}

func (w *world) version(v string) sample.Version {
	return sample.Version{Version: v, Ready: "30s", Soak: "50ms", Stop: "5s"}
}

// end stops the fleet, whose invariants must hold, and deletes it.
func (w *world) end(t *testing.T) {
	if err := w.Close(); err != nil {
		t.Errorf("stop the fleet: %v", err)
	}
	if t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
		for _, path := range logs {
			data, _ := os.ReadFile(path)
			last := 1500
			if strings.HasPrefix(filepath.Base(path), "garrisond") {
				last = 30_000 // the control plane's says what an attack met
			}
			_, _ = fmt.Fprintf(t.Output(), "%s (its end):\n%s\n", filepath.Base(path), data[max(0, len(data)-last):])
		}
	}
	if err := os.RemoveAll(w.Dir); err != nil {
		t.Error(err)
	}
}

// enrol enrols a server whose executor does not run.
func (w *world) enrol(t *testing.T) *server {
	t.Helper()
	joined, err := w.JoinServer(t.Context(), w.unused("server"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: joined}
	s.login, s.address = readLogin(t, s.Root)
	return s
}

// unused returns a name that is not taken.
func (w *world) unused(kind string) string {
	w.names++
	return fmt.Sprintf("%s-%d", kind, w.names)
}

// ok runs the CLI as the first operator and fails the test unless it exits with 0.
func (w *world) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, err := w.CLI(t.Context(), args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// eventually waits until done returns no error, for a minute at most.
func (t *trial) eventually(what string, done func() error) {
	t.Helper()
	polltest.Succeeds(t, what, done)
}

// residentMiB returns the memory of the control plane's processes.
func (w *world) residentMiB() (mib int) {
	pids := []int{w.Garrisond.Pid()}
	for _, p := range w.Services {
		pids = append(pids, p.Pid())
	}
	for _, pid := range pids {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // not on this system: 0
		for line := range strings.Lines(string(data)) {
			var kib int
			if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
				mib += kib >> 10
			}
		}
	}
	return mib
}
