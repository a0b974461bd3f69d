// Package powercut gives tests a disk whose power can be cut: what was not synced to it
// is gone, as it is with a machine that loses power.
package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk is a file system of its own, in a file.
type Disk struct {
	Mount  string
	Before func() // ends what runs from it, as the cut would; nil ends nothing

	image string
}

// Unable says why no disk can be made here, or "".
func Unable(t *testing.T) string {
	if os.Geteuid() != 0 {
		return "only root may mount"
	}
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), Mount: t.TempDir()}
	if err := d.make(16 << 20); err != nil {
		return err.Error()
	}
	if err := errors.Join(d.Cut(), Unmount(d.Mount)); err != nil {
		return err.Error()
	}
	return ""
}

// New makes a disk of so many bytes, which goes with the test.
func New(t *testing.T, size int64) *Disk {
	t.Helper()
	d := &Disk{image: filepath.Join(t.TempDir(), "image"), Mount: t.TempDir()}
	if err := d.make(size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.end()
		if err := Unmount(d.Mount); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *Disk) make(size int64) error {
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(d.image, size); err != nil {
		return err
	}
	if err := Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", d.image); err != nil {
		return err
	}
	if err := d.mountIt(); err != nil {
		return err
	}
	if err := os.WriteFile(d.mark(), nil, 0o600); err != nil {
		return err
	}
	return Command("sync", "-f", d.mark()) // not by what is tested
}

// mark is a file that can be opened as long as the disk has power.
func (d *Disk) mark() string { return filepath.Join(d.Mount, "power") }

// mountIt mounts the disk so that nothing is written by itself, and nothing earlier than asked for.
func (d *Disk) mountIt() error {
	return Command("mount", "-o", "loop,commit=300,noauto_da_alloc", d.image, d.Mount)
}

// attach mounts the disk anew. As long as a process elsewhere has the old mount in a
// namespace of its own, the kernel gives the file system back that was shut down.
func (d *Disk) attach() error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if err := d.mountIt(); err != nil {
			return err
		}
		f, err := os.Open(d.mark())
		if err == nil {
			return f.Close()
		}
		if !errors.Is(err, unix.EIO) || time.Now().After(end) {
			return err
		}
		if err := Unmount(d.Mount); err != nil {
			return err
		}
	}
}

// Unmount unmounts what is mounted at a path, once nobody uses it any more.
func Unmount(path string) error {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = unix.Unmount(path, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// Cut loses everything that was not synced, and mounts what is left.
func (d *Disk) Cut() error {
	if err := Shut(d.Mount); err != nil {
		return err
	}
	return d.Restore()
}

// Restore gives a disk that was shut its power back.
func (d *Disk) Restore() error {
	d.end()
	return errors.Join(Unmount(d.Mount), d.attach())
}

func (d *Disk) end() {
	if d.Before != nil {
		d.Before()
	}
}

// From linux/fs.h and ext4's GOING_FLAGS.
const (
	ioctlShutdown = 0x8004587d // FS_IOC_SHUTDOWN
	noLogFlush    = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
)

// Shut cuts the power of the file system on which a path is: from now on nothing can be
// written or opened there, in any process. One that is shut already is an error, EIO.
func Shut(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	flags := uint32(noLogFlush)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&flags)))
	if err := f.Close(); err != nil || errno != 0 {
		return fmt.Errorf("shut %s down: %w", path, errors.Join(err, errno))
	}
	return nil
}

// Freeze makes whoever writes to the disk wait until the test ends or Thaw, so that nothing
// can kill it.
func (d *Disk) Freeze(t *testing.T) {
	t.Helper()
	if err := Command("fsfreeze", "-f", d.Mount); err != nil {
		t.Skip(err)
	}
	t.Cleanup(d.Thaw)
}

// Thaw ends a Freeze.
func (d *Disk) Thaw() { _ = Command("fsfreeze", "-u", d.Mount) } // it may be done already

// Command runs a program, whose words are the error.
func Command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
