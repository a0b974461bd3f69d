package fault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// Disk is a file system in memory that can be filled.
type Disk struct {
	Whose string
	dir   string
}

// MountDisk mounts a file system of its own at a directory, which may be missing. It needs the permission to mount.
func MountDisk(whose, dir string, mebibytes int) (*Disk, error) {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = unix.Mount("garrison-chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", mebibytes*mib))
	}
	return &Disk{whose, dir}, err
}

// Full fills the disk until no space is left.
func (d *Disk) Full() Fault { return Fault{d.fill, d.Empty} }

const filler = ".filler"

func (d *Disk) fill() error {
	f, err := os.Create(filepath.Join(d.dir, filler))
	if err != nil {
		return err
	}
	chunk := make([]byte, mib)
	for err == nil {
		_, err = f.Write(chunk)
	}
	for len(chunk) > 1 && errors.Is(err, syscall.ENOSPC) {
		chunk = chunk[:len(chunk)/2]
		if _, e := f.Write(chunk); e != nil && !errors.Is(e, syscall.ENOSPC) {
			err = e
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Empty frees the space.
func (d *Disk) Empty() error {
	err := os.Remove(filepath.Join(d.dir, filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// ReadOnly lets nothing be written below the disk's directory. What is open stays writable, as on a disk that fails.
func (d *Disk) ReadOnly() Fault { return Fault{d.cover, d.uncover} }

func (d *Disk) cover() error {
	if err := unix.Mount(d.dir, d.dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s: %w", d.dir, err)
	}
	return unix.Mount("", d.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

func (d *Disk) uncover() error { return unix.Unmount(d.dir, unix.MNT_DETACH) }

// Unmount takes the disk away.
func (d *Disk) Unmount() error {
	if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", d.dir, err)
	}
	return nil
}
