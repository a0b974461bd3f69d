package space_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/space"
)

// smallDisk returns a file system of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("garrison", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func free(t *testing.T, dir string) uint64 {
	t.Helper()
	f, err := space.Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f.Bytes
}

func TestWhatIsReservedNobodyElseGets(t *testing.T) {
	dir := smallDisk(t, "32m")
	before := free(t, dir)
	one, err := space.Reserve(filepath.Join(dir, "one"), 20<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	if now := free(t, dir); before-now != 20<<20 {
		t.Errorf("%d bytes are gone, want 20 MiB", before-now)
	}
	if _, err := space.Reserve(filepath.Join(dir, "two"), 20<<20, 0); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want no space", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 20<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("another program got it: %v", err)
	}
	_ = os.Remove(filepath.Join(dir, "other"))
	if err := one.Release(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 || free(t, dir) != before {
		t.Errorf("left %v, free %d of %d", left, free(t, dir), before)
	}
}

// On a disk that is otherwise full, two write all that they reserved, by turns.
func TestTwoThatWriteWhatTheyReservedDoNotTakeFromEachOther(t *testing.T) {
	dir := smallDisk(t, "48m")
	const each = 16 << 20
	var held [2]*space.Reservation
	var files [2]*os.File
	for n, name := range []string{"one", "two"} {
		var err error
		if held[n], err = space.Reserve(filepath.Join(dir, name), each+1<<20, 1<<20); err != nil {
			t.Fatal(err)
		}
		if files[n], err = os.Create(filepath.Join(dir, name+".data")); err != nil {
			t.Fatal(err)
		}
	}
	rest := free(t, dir) - 64<<10
	if err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, rest), 0o600); err != nil {
		t.Fatal(err)
	}
	for written := 0; written < each; written += 32 << 10 {
		for n := range held {
			held[n].Use(32 << 10)
			if _, err := files[n].Write(make([]byte, 32<<10)); err != nil {
				t.Fatalf("after %d bytes: %v", written, err)
			}
			if taken := uint64(each+1<<20) - held[n].Held() - uint64(written); taken > space.Step+32<<10 {
				t.Fatalf("%d bytes were given back ahead", taken)
			}
		}
	}
	for _, h := range held {
		if h.Held() != 1<<20 {
			t.Errorf("%d bytes are still held, want the MiB that is not for that", h.Held())
		}
	}
}

func TestShrinkingNeverGrows(t *testing.T) {
	r, err := space.Reserve(filepath.Join(t.TempDir(), "r"), 10<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, want uint64 }{{6 << 20, 6 << 20}, {8 << 20, 6 << 20}, {0, 0}, {1, 0}} {
		if r.ShrinkTo(c.to); r.Held() != c.want {
			t.Errorf("held %d after ShrinkTo(%d), want %d", r.Held(), c.to, c.want)
		}
	}
	if err := errors.Join(r.Release(), r.Release(), (*space.Reservation)(nil).Release()); err != nil {
		t.Error(err)
	}
}
