// Package powercut provides a disk whose power a test can cut: data that was not synced is lost, as on a machine that
// loses power. Only root can use it, on a machine with loop devices and mkfs.ext4.
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

// Disk is an ext4 file system in a file.
type Disk struct {
	Mount  string
	Before func() // ends the processes that run from it, as the cut would; may be nil

	image string
}

// Unable returns the reason why this machine cannot create a disk, or "".
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

// New creates a disk of a size in bytes. It is deleted when the test ends.
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
	return Command("sync", "-f", d.mark()) // not by the code under test
}

// mark returns the path of a file that can be opened while the disk has power.
func (d *Disk) mark() string { return filepath.Join(d.Mount, "power") }

// mountIt mounts the disk so that the kernel writes nothing before it is asked to.
func (d *Disk) mountIt() error {
	return Command("mount", "-o", "loop,commit=300,noauto_da_alloc", d.image, d.Mount)
}

// attach mounts the disk anew. While a process has the old mount in a namespace of its own, the kernel returns the file
// system that was shut down; attach retries until it is gone.
func (d *Disk) attach() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
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

// Unmount unmounts the file system at a path, and waits up to a minute until it is not in use.
func Unmount(path string) error {
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = unix.Unmount(path, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// Cut drops all data that was not synced, and mounts the rest.
func (d *Disk) Cut() error {
	if err := Shut(d.Mount); err != nil {
		return err
	}
	return d.Restore()
}

// Restore restores the power of a disk that was shut down.
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

// Shut cuts the power of the file system that holds a path: from now on no process can write or open a file there. It
// returns EIO if the power is cut already.
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

// Freeze blocks every writer to the disk until Thaw or the end of the test. A blocked process cannot be killed.
func (d *Disk) Freeze(t *testing.T) {
	t.Helper()
	if err := Command("fsfreeze", "-f", d.Mount); err != nil {
		t.Skip(err)
	}
	t.Cleanup(d.Thaw)
}

// Thaw ends a Freeze.
func (d *Disk) Thaw() { _ = Command("fsfreeze", "-u", d.Mount) } // fails when it is not frozen

// Command runs a program and returns its output in the error.
func Command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
