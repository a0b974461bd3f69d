package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// The sizes of the file systems that can be filled.
const (
	controlDisk = 1024 * mib
	serverDisk  = 192 * mib
)

// disk is a file system in memory that can be filled.
type disk struct {
	whose string
	dir   string
}

// mountDisk mounts a file system of its own at a directory, which may be missing. Without
// the permission to mount, rounds with a full disk are skipped, and their results say so.
func (w *World) mountDisk(whose, dir string, size int) {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = unix.Mount("garrison-chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", size))
	}
	if err != nil {
		w.logf("no disk of its own for %s: %v", whose, err)
		return
	}
	w.disks = append(w.disks, &disk{whose, dir})
}

const filler = ".filler"

// fill writes until no space is left.
func (d *disk) fill() error {
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

// empty frees the space.
func (d *disk) empty() error {
	err := os.Remove(filepath.Join(d.dir, filler))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (d *disk) unmount() error {
	if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", d.dir, err)
	}
	return nil
}
