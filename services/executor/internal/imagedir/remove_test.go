package imagedir_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
)

// An agent's state is its user's. A process of that user may put a link in the place of a
// directory at any instant, and what the link leads to must be as it was.
func TestARemovalTouchesNothingOutsideWhateverIsSwappedMeanwhile(t *testing.T) {
	outside := t.TempDir()
	secret := filepath.Join(outside, "within")
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		dir := filepath.Join(t.TempDir(), "state")
		link := filepath.Join(filepath.Dir(dir), "link")
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
		for n := range 40 {
			if err := os.MkdirAll(filepath.Join(dir, "a"+strconv.Itoa(n), "b"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				_ = unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, filepath.Join(dir, "a"+strconv.Itoa(n%40)),
					unix.RENAME_EXCHANGE)
			}
		})
		_ = imagedir.RemoveTree(dir) // it may lose, and say so
		close(stop)
		swapping.Wait()
		for _, path := range []string{outside, secret} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
				t.Fatalf("%s: %v, %v", path, info, err)
			}
		}
	}
}

func TestARemovalDeletesNothingThatIsMounted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	at := filepath.Join(dir, "disk")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("garrison", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	other := filepath.Join(at, "foreign")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := imagedir.RemoveTree(dir)
	if _, gone := os.Stat(other); gone != nil || fault.RefusalOf(err).GetCode() != code.Mounted {
		t.Errorf("%v; the file: %v", err, gone)
	}
}
