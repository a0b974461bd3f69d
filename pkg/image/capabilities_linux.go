package image

import (
	"os"

	"golang.org/x/sys/unix"
)

// hasCapabilities reports whether a file has capabilities of its own.
func hasCapabilities(f *os.File) bool {
	n, err := unix.Fgetxattr(int(f.Fd()), "security.capability", nil)
	return err == nil && n > 0
}
