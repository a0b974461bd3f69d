package simulation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestAStateIsWrittenWhenFewerFilesAreOpenThanMayBe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		root, err := layout.At(dir)
		if err != nil {
			t.Fatal(err)
		}
		e := opened(t, root)
		for range filesAtOnce {
			e.files <- struct{}{}
		}
		written := make(chan error)
		go func() { written <- e.save() }()
		synctest.Wait()
		if !layout.Missing(memoryFile(root)) {
			t.Errorf("a state was written beside %d open files", filesAtOnce)
		}
		<-e.files
		if err := <-written; err != nil || layout.Missing(memoryFile(root)) {
			t.Errorf("behind them: %v, no file: %v", err, layout.Missing(memoryFile(root)))
		}
	})
}

func TestCredentialsAreReadWhenFewerFilesAreOpenThanMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, reads := newFiles(), 0
		credentials := f.credentials(func() (string, []byte, error) {
			reads++
			return "jwt", []byte("seed"), errors.New("unreadable")
		})
		for range filesAtOnce {
			f <- struct{}{}
		}
		done := make(chan error)
		go func() {
			jwt, seed, err := credentials()
			done <- fmt.Errorf("%s %s %w", jwt, seed, err)
		}()
		synctest.Wait()
		if reads > 0 {
			t.Errorf("credentials were read beside %d open files", filesAtOnce)
		}
		<-f
		if err := <-done; err.Error() != "jwt seed unreadable" {
			t.Errorf("behind them: %v", err)
		}
	})
}

// limitedFleet is set in the process that TestAFleetKeepsWithinItsFiles limits.
const limitedFleet = "GARRISON_SIM_LIMITED_FLEET"

// All servers write their state at the same time, as they do when they end, while each has its connection.
func TestAFleetKeepsWithinItsFiles(t *testing.T) {
	const servers = 200
	if dir := os.Getenv(limitedFleet); dir != "" {
		writeAll(t, dir, servers)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFleetKeepsWithinItsFiles$")
	child.Env = append(os.Environ(), limitedFleet+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// writeAll writes the state of servers that have a connection each, in a process that may have no more files than such
// a fleet has. All but those of the states are taken.
func writeAll(t *testing.T, dir string, servers int) {
	limit := uint64(servers + SpareFiles)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{Dir: dir, Servers: servers, Settings: Settings{Duration: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	var engines []*engine
	for n := range servers {
		root, err := layout.At(filepath.Join(dir, strconv.Itoa(n)))
		if err == nil {
			err = os.Mkdir(string(root), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := readMemory(root)
		if err != nil {
			t.Fatal(err)
		}
		engines = append(engines, f.newEngine(root, "s", m))
	}
	runtime.GOMAXPROCS(servers) // so that all of them are under way
	free := takeAllBut(t, filesAtOnce)
	defer free()
	var all sync.WaitGroup
	errs := make([]error, servers)
	for n, e := range engines {
		all.Go(func() {
			for range 20 {
				errs[n] = cmp.Or(errs[n], e.save())
			}
		})
	}
	all.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if err := endedEarly(errs); err != nil {
		t.Fatal(err)
	}
	for n, e := range engines {
		if data, err := os.ReadFile(memoryFile(e.root)); err != nil || !json.Valid(data) {
			t.Fatalf("the state of server %d: %d bytes, %v", n, len(data), err)
		}
	}
}

// takeAllBut opens files until the process may open only so many more.
func takeAllBut(t *testing.T, left int) (free func()) {
	var open []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	for _, f := range open[:left] {
		_ = f.Close()
	}
	return func() {
		for _, f := range open[left:] {
			_ = f.Close()
		}
	}
}

func TestManyServersThatEndAreCountedAndTheFirstAreNamed(t *testing.T) {
	var all []error
	for n := range 7000 {
		all = append(all, fmt.Errorf("server %d: too many open files", n))
	}
	for servers, want := range map[int]string{
		1: "server 0: too many open files",
		3: "server 0: too many open files\nserver 1: too many open files\nserver 2: too many open files",
		7000: "7000 servers ended by themselves; the first 3:\nserver 0: too many open files\n" +
			"server 1: too many open files\nserver 2: too many open files",
	} {
		if have := endedEarly(all[:servers]); have.Error() != want {
			t.Errorf("%d: %q; want %q", servers, have, want)
		}
	}
	if err := endedEarly(nil); err != nil {
		t.Errorf("none: %v", err)
	}
}
