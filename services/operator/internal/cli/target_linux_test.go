package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fullDisk returns a directory on a file system of its own, and what leaves no room in it.
func fullDisk(t *testing.T) (dir string, fill func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("garrison", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, func() {
		err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600)
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("the disk is not full: %v", err)
		}
	}
}

func TestATokenHasRoomBeforeItIsMade(t *testing.T) {
	dir, fill := fullDisk(t)
	token, late := filepath.Join(dir, "token"), filepath.Join(dir, "late")
	target, err := ReserveTarget(token)
	if err != nil {
		t.Fatal(err)
	}
	fill()
	if _, err := ReserveTarget(late); err == nil || !strings.Contains(err.Error(),
		"cannot write "+late+": no space left on device. Try: ") {
		t.Errorf("a token without room: %v", err)
	}
	if err := target.Keep("secret"); err != nil {
		t.Error(err)
	}
	target.Discard()
	if have, err := os.ReadFile(token); err != nil || string(have) != "secret\n" {
		t.Errorf("%q, %v", have, err)
	}
	if info, err := os.Stat(token); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files, want the token and the filler: %v", len(left), err)
	}
}
