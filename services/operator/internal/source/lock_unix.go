//go:build linux || darwin

package source

import (
	"os"
	"syscall"
)

// lock takes a directory for this process until it is closed, or refuses.
func lock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, unusable("another sync of this user fetches into %s: %v", dir, err).Try("the same again, later")
	}
	return f, nil
}
