// Package mounts finds file systems that are mounted inside a directory.
//
// Guarantee: Check refuses a directory with a mount at or below it. Call it right before deleting a directory: a
// deletion crosses mount points, and the content of a mounted file system is not the executor's.
package mounts

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"

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
