package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// The journal must be writable also when the disk is full, or a change could neither be
// undone nor ended. So there is always some space behind what it uses.
const (
	reservedLeast  = 4 << 20
	reservedBehind = 1 << 20
)

// reserve takes space on the disk for a journal to grow into. Where it cannot, the
// journal works as well, until the disk is full.
func reserve(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(reservedLeast, info.Size()+reservedBehind))
	}
}
