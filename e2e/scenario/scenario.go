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
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/freeport"
)

// Bin is the directory of the programs under test.
var Bin string

// fleetsAtOnce is how many scenarios run side by side, unless -parallel says another number. A scenario waits more than
// it computes, so that this is more than the processors of a small machine.
const fleetsAtOnce = "4"

// Main runs the tests of a package with the programs under test, and returns the exit code.
func Main(m *testing.M) int {
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
	if Bin, remove, err = fleet.Programs(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer remove()
	return m.Run()
}

// World is a fleet in a test, with the steps that many scenarios share.
type World struct {
	*fleet.Fleet
	T       *testing.T
	Servers []*fleet.Server
}

// New starts a fleet of servers that ends with the test. Versions 1.0.0 and 2.0.0 of
// the agent beacon are active.
func New(t *testing.T, o fleet.Options, servers ...string) *World {
	t.Helper()
	o.Bin, o.Dir = Bin, ShortDir(t)
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &World{Fleet: f, T: t}
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
		if n := strings.Count(w.OK("server", "list", "-o", "json"), "PRESENCE_ONLINE"); n != len(servers) {
			return fmt.Errorf("%d of %d are online", n, len(servers))
		}
		return nil
	})
	return w
}

// Simulated returns a fleet for simulated servers, which ends with the test.
func Simulated(t *testing.T, o fleet.Options) *fleet.Fleet {
	t.Helper()
	o.Bin, o.Dir = Bin, ShortDir(t)
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("stop the fleet: %v", err)
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

func (w *World) printLogs() {
	logs, _ := filepath.Glob(filepath.Join(w.Dir, "logs", "*.log"))
	for _, path := range logs {
		data, _ := os.ReadFile(path)
		w.T.Logf("%s (last 1,500 bytes):\n%s", filepath.Base(path), data[max(0, len(data)-1500):])
	}
}
