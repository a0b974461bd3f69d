//go:build !linux

package image

import "os"

// hasCapabilities reports whether a file has capabilities of its own. Only files on Linux do.
func hasCapabilities(*os.File) bool { return false }
