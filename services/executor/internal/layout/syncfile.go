//go:build !seed_nofilesync

package layout

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile returns when a file's content is on the disk.
func syncFile(f *os.File) error { return f.Sync() }

// syncFileSystem returns when everything on f's file system is on the disk.
func syncFileSystem(f *os.File) error { return unix.Syncfs(int(f.Fd())) }
