package engine

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

// disk is a file system of its own, whose power can be cut: what was not synced is gone.
type disk struct {
	image, mount string
	before       func() // ends what runs from it, as the cut would
}

// noDisks says why no disk can be made here, or "".
func noDisks(t *testing.T) string {
	if os.Geteuid() != 0 {
		return "only root may mount"
	}
	d := &disk{image: filepath.Join(t.TempDir(), "image"), mount: t.TempDir()}
	if err := d.make(); err != nil {
		return err.Error()
	}
	if err := errors.Join(d.cut(), d.unmount()); err != nil {
		return err.Error()
	}
	return ""
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{image: filepath.Join(t.TempDir(), "image"), mount: t.TempDir()}
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.before != nil {
			d.before()
		}
		if err := d.unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) make() error {
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(d.image, 128<<20); err != nil {
		return err
	}
	if err := command("mkfs.ext4", "-q", "-E", "lazy_itable_init=1,nodiscard", d.image); err != nil {
		return err
	}
	return d.attach()
}

// attach mounts the disk so that nothing is written by itself, and nothing earlier than asked for.
func (d *disk) attach() error {
	return command("mount", "-o", "loop,commit=300,noauto_da_alloc", d.image, d.mount)
}

func (d *disk) unmount() error {
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if err = unix.Unmount(d.mount, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", d.mount, err)
	}
	return nil
}

// From linux/fs.h and ext4's GOING_FLAGS.
const (
	ioctlShutdown = 0x8004587d // FS_IOC_SHUTDOWN
	noLogFlush    = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
)

// cut loses everything that was not synced, and mounts what is left.
func (d *disk) cut() error {
	dir, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	flags := uint32(noLogFlush)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), ioctlShutdown, uintptr(unsafe.Pointer(&flags)))
	if err := dir.Close(); err != nil || errno != 0 {
		return fmt.Errorf("shut %s down: %w", d.mount, errors.Join(err, errno))
	}
	if d.before != nil {
		d.before()
	}
	return errors.Join(d.unmount(), d.attach())
}

// turnReadOnly lets the file system find an error in itself, upon which it takes no more writes.
func (d *disk) turnReadOnly() error {
	if err := command("mount", "-o", "remount,errors=remount-ro", d.mount); err != nil {
		return err
	}
	device, err := exec.Command("findmnt", "-n", "-o", "SOURCE", d.mount).Output()
	if err != nil {
		return fmt.Errorf("find the device of %s: %w", d.mount, err)
	}
	return os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(strings.TrimSpace(string(device))), "trigger_fs_error"), []byte("1"), 0o200)
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
