package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

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
