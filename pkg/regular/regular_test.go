package regular_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/regular"
)

// Each of these would hang, or never end.
func TestOtherKindsAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	fifo, socket := filepath.Join(dir, "fifo"), filepath.Join(dir, "socket")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(fifo, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, socket, link, dir, "/dev/zero"} {
		if _, err := regular.ReadFile(path); !errors.Is(err, regular.ErrNot) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAPersonMayNameWhatTheirShellOpened(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	_, err = w.WriteString("secret")
	f, e := regular.OpenNamed(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err = errors.Join(err, e, w.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if text, err := io.ReadAll(f); string(text) != "secret" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestALinkOutOfTheDirectoryIsRefused(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for _, err := range []error{
		os.WriteFile(outside, []byte("s"), 0o600), os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")), os.Symlink("a", filepath.Join(dir, "in")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"a": true, "in": true, "out": false} {
		f, err := regular.OpenIn(dir, name)
		if (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}
