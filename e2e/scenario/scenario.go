// Package scenario is what tests of the whole system share: a fleet of real processes that ends with its test, and the
// steps by which scenarios change it and look at it.
package scenario

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Bin is the directory of the programs under test.
var Bin string

// fleetsAtOnce is how many scenarios run side by side, unless -parallel says another number. A scenario waits more than
// it computes, so that this is more than the processors of a small machine.
const fleetsAtOnce = "4"

// Main runs the tests of a package with the programs under test. It is TestMain.
func Main(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fleetsAtOnce); err != nil {
			return 1, err
		}
	}
	if images.dir, err = os.MkdirTemp("", "garrison-e2e-images-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(images.dir) }()
	images.files = map[sample.Version]string{}
	var remove func()
	if Bin, remove, err = rig.Programs(context.Background()); err != nil {
		return 1, err
	}
	defer remove()
	return m.Run(), nil
}

// World is a fleet in a test, with the steps that many scenarios share.
type World struct {
	*rig.Fleet
	T       *testing.T
	Servers []*rig.Server
}

// New starts a fleet of servers that ends with the test. Versions 1.0.0 and 2.0.0 of
// the agent beacon are active.
func New(t *testing.T, o rig.Options, servers ...string) *World {
	t.Helper()
	f := Simulated(t, o)
	w := &World{Fleet: f, T: t}
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.OK("agent", "create", "beacon", "--kind", "daemon")
	for _, v := range []string{"1.0.0", "2.0.0"} {
		w.Image(v, "")
	}
	for _, name := range servers {
		s, err := f.AddServer(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		w.Servers = append(w.Servers, s)
	}
	w.Eventually("every server is online", func() error {
		online := &registryv1.ListServersRequest{Presence: serverv1.Presence_PRESENCE_ONLINE}
		r, err := Ask[*registryv1.CountServersResponse](w, &registryv1.CountServersRequest{Filter: online})
		if n := int(r.GetCounts().GetTotal()); err == nil && n != len(servers) {
			err = fmt.Errorf("%d of %d are online", n, len(servers))
		}
		return err
	})
	return w
}

// Simulated returns a fleet that was not started, as for simulated servers, and ends with the test.
func Simulated(t *testing.T, o rig.Options) *rig.Fleet {
	t.Helper()
	o.Bin, o.Dir = Bin, ShortDir(t)
	f, err := rig.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("stop the fleet: %v", err)
		}
		if t.Failed() {
			printLogs(t, f)
		}
	})
	return f
}

// ShortDir returns a directory with a short name: the path of a socket has at most 107 bytes.
func ShortDir(t *testing.T) string {
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

// FreePort returns a port that is free at the moment.
func FreePort(t *testing.T) string {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// printLogs prints the ends of all logs, without the place of a line: the last place that a failed test prints is that
// of its assertion, which the summary of a lane shows.
func printLogs(t *testing.T, f *rig.Fleet) {
	logs, _ := filepath.Glob(filepath.Join(f.Dir, "logs", "*.log"))
	for _, path := range logs {
		data, _ := os.ReadFile(path)
		end := data[max(0, len(data)-1500):]
		_, _ = fmt.Fprintf(t.Output(), "%s (last 1,500 bytes):\n%s\n", filepath.Base(path), end)
	}
}

// Image builds, imports and activates a version of beacon, which may misbehave.
func (w *World) Image(version, misbehave string) {
	w.T.Helper()
	v := sample.Version{Version: version, Misbehave: misbehave, Ready: "1m", Soak: "500ms", Stop: "10s"}
	switch misbehave {
	case "never-ready":
		v.Ready = "2s"
	case "exit-later":
		v.Soak = "1m" // it exits after half a second, which a busy machine makes longer
	}
	w.ImportImage(v)
}

// images are the image files that scenarios share: each version is built once.
var images struct {
	sync.Mutex
	dir   string
	files map[sample.Version]string
}

// ImportImage imports and activates a version of beacon.
func (w *World) ImportImage(v sample.Version) {
	w.T.Helper()
	images.Lock()
	file, built := images.files[v]
	if !built {
		dir := filepath.Join(images.dir, fmt.Sprintf("%d-%s", len(images.files), v.Version))
		if err := v.Fill(Bin, dir); err != nil {
			images.Unlock()
			w.T.Fatal(err)
		}
		file = dir + ".gimg"
		if out, err := w.CLI(w.T.Context(), "image", "build", dir, "--out", file); err != nil {
			images.Unlock()
			w.T.Fatalf("%v\n%s", err, out)
		}
		images.files[v] = file
	}
	images.Unlock()
	w.OK("image", "import", file, "--activate")
}
