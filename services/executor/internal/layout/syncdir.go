//go:build !seed_nodirsync

package layout

import "os"

// syncDir returns when a directory's names are on the disk.
func syncDir(dir *os.File) error { return dir.Sync() }
