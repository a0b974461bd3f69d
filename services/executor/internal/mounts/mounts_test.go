package mounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestADirectoryIsRefusedWhenSomethingIsMountedInItOnly(t *testing.T) {
	root := t.TempDir()
	at := filepath.Join(root, "a", "with space")
	for _, dir := range []string{at, filepath.Join(root, "ab")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("garrison", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for dir, mounted := range map[string]bool{
		root: true, filepath.Join(root, "a"): true, at: true, filepath.Join(link, "a"): true,
		// a link is deleted, not what it leads to
		filepath.Join(root, "ab"): false, filepath.Join(at, "in it"): false, link: false,
		filepath.Join(root, "none", "at", "all"): false,
	} {
		err := Check(dir)
		if refused := fault.RefusalOf(err).GetCode() == code.Mounted; refused != mounted || (err != nil) != mounted {
			t.Errorf("%s: %v", dir, err)
		}
		if mounted && !strings.Contains(err.Error(), at) {
			t.Errorf("%v does not say where", err)
		}
	}
}

func TestARootWhereNothingCanRunOrBeWrittenIsNamedByItsMount(t *testing.T) {
	for why, c := range map[string]struct {
		flags uintptr
		check func(string) error
	}{
		code.RootNoexec:   {unix.MS_NOEXEC, Executable},
		code.RootReadOnly: {unix.MS_RDONLY, Writable},
	} {
		at := t.TempDir()
		if err := c.check(at); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		if err := c.check(filepath.Join(at, "missing")); err != nil {
			t.Errorf("%s, missing: %v", why, err)
		}
		if err := unix.Mount("garrison", at, "tmpfs", 0, "size=64k"); err != nil {
			t.Skipf("a tmpfs cannot be mounted here: %v", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		dir := filepath.Join(at, "images")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("", at, "", unix.MS_REMOUNT|c.flags, ""); err != nil {
			t.Fatal(err)
		}
		err := c.check(dir)
		r := fault.RefusalOf(err)
		if r.GetCode() != why || !strings.HasPrefix(r.GetMessage(), at+" is mounted") {
			t.Errorf("%v, want %s at %s", err, why, at)
		}
	}
}
