package status

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// fullDisk returns a root on a disk of its own, with a status of an executor that ended, and what fills the disk.
func fullDisk(t *testing.T) (root layout.Root, fill func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("garrison", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	root = layout.Root(filepath.Join(dir, "root"))
	if err := os.MkdirAll(root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	old := Status{ServerID: "s", State: Running, At: time.Now(), process: thisProcess()}
	old.Note = strings.Repeat("x", 1000)
	old.Started++ // no process has that id and that start
	if err := write(root, old); err != nil {
		t.Fatal(err)
	}
	return root, func() {
		f, err := os.Create(filepath.Join(dir, "hog"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for size := 1 << 20; size >= 512; {
			if _, err := f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
	}
}

func read(t *testing.T, root layout.Root) Status {
	t.Helper()
	s, err := Read(string(root))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hold opens the journal as an executor does.
func hold(t *testing.T, root layout.Root) *journal.Journal {
	t.Helper()
	j, err := journal.Open(root.Journal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestAnExecutorWritesItsStatusAlsoOnAFullDisk(t *testing.T) {
	root, fill := fullDisk(t)
	fill()
	now := Status{ServerID: "s", State: Running, process: thisProcess(), Connected: true}
	for _, note := range []string{"", strings.Repeat("y", 6<<10), "short", strings.Repeat("z", 6<<10)} {
		now.At, now.Note = time.Now(), note
		if err := layout.WriteVolatile(root.Status(), make([]byte, 512), 0o644); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
		if err := write(root, now); err != nil {
			t.Fatal(err)
		}
		s := read(t, root)
		if err := s.Healthy(time.Now()); err != nil || s.Note != note || s.AsOf(time.Now()).State != Running {
			t.Errorf("%v; read with a note of %d bytes, want %d", err, len(s.Note), len(note))
		}
	}
}

func TestAnExecutorWhoseStatusHasNoRoomRunsAsLongAsItHoldsItsJournal(t *testing.T) {
	root, fill := fullDisk(t)
	j := hold(t, root)
	fill()
	now := Status{State: Running, At: time.Now(), process: thisProcess(), Note: strings.Repeat("x", 100<<10)}
	if err := write(root, now); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a status of 100 KiB: %v", err)
	}
	s := read(t, root)
	if err := s.Healthy(time.Now()); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := s.Print(&out, time.Now()); err != nil || !strings.Contains(out.String(), "executor  running") ||
		!strings.Contains(out.String(), "it runs, and has not written its status since") ||
		!strings.Contains(out.String(), "bus       unknown") {
		t.Errorf("%v\n%s", err, out.String())
	}
	later := time.Now().Add(freshFor + time.Second)
	if err := s.Healthy(later); err == nil {
		t.Error("an executor that holds the journal and does nothing is healthy")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Healthy(time.Now()); err == nil || s.AsOf(time.Now()).State != Gone {
		t.Errorf("%v, state %s after its end", err, s.AsOf(time.Now()).State)
	}
}
