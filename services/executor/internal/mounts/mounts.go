// Package mounts finds file systems that are mounted inside a directory.
//
// Guarantee: Check refuses a directory with a mount at or below it. Call it right before deleting a directory: a
// deletion crosses mount points, and the content of a mounted file system is not the executor's.
package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Check refuses a directory with a mount at or below it. A missing directory has none.
func Check(dir string) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find mounts: %w", err)
	}
	found, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(parent, filepath.Base(dir))))
	if err != nil {
		return fmt.Errorf("find mounts: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	var at []string
	for _, m := range found {
		at = append(at, strings.ToValidUTF8(m.Mountpoint, "?"))
	}
	return fault.Refusef(fault.Invalid, code.Mounted,
		"a file system is mounted at %s: unmount it first; its content is never deleted", strings.Join(at, " and "))
}

// Writable refuses a directory on a file system that is read-only. A missing directory is not refused.
func Writable(dir string) error {
	return refuseOption(dir, unix.ST_RDONLY, code.RootReadOnly, "ro", "nothing can be written below")
}

// Executable refuses a directory on a file system from which no program can be started. A missing directory is not
// refused.
func Executable(dir string) error {
	return refuseOption(dir, unix.ST_NOEXEC, code.RootNoexec, "noexec", "no program can be started below")
}

func refuseOption(dir string, flag int64, why, option, means string) error {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if errors.Is(err, fs.ErrNotExist) || err == nil && int64(st.Flags)&flag == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	return fault.Refusef(fault.Invalid, why, "%s is mounted with the option %s: %s %s", mountOf(dir), option, means,
		dir)
}

// mountOf returns the mount point of a directory, or the directory when that is unknown.
func mountOf(dir string) string {
	found, err := mountinfo.GetMounts(mountinfo.ParentsFilter(dir))
	if err != nil {
		return dir
	}
	at := ""
	for _, m := range found {
		if len(m.Mountpoint) >= len(at) { // of one path, the last one is on top
			at = m.Mountpoint
		}
	}
	return cmp.Or(at, dir)
}
