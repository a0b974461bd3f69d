package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// reservedBehind is the room on the disk behind the text of a status, for a longer one on a full disk.
const reservedBehind = 8 << 10

// write replaces the status, whole or not at all. On a full disk it is written into the room that the last one has.
// When that fails too, the time of the file shows that the executor runs.
func write(root layout.Root, s Status) error {
	s.Stamp = fileFormat.Stamp()
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := root.Status()
	err = layout.WriteVolatile(path, data, 0o644)
	if err == nil {
		reserve(path, int64(len(data)))
		return nil
	}
	inPlace := overwrite(path, data)
	if inPlace == nil {
		return nil
	}
	now := time.Now()
	return errors.Join(err, inPlace, os.Chtimes(path, now, now))
}

// reserve takes room behind a status of n bytes. Where the file system cannot reserve, nothing is held.
func reserve(path string, n int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n+reservedBehind)
}

// overwrite writes a status over the last one. A shorter one is filled up with line ends: a shorter file would give
// back its room. Readers that use readFile never see a part of it.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("overwrite status: it is being read: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	if missing := info.Size() - int64(len(data)); missing > 0 {
		data = append(data, bytes.Repeat([]byte{'\n'}, int(missing))...)
	} else if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(len(data))); err != nil {
		return fmt.Errorf("overwrite status: %w", err) // before the first byte is written
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	return nil
}

// readFile reads a status and returns when it was last written or could not be written.
func readFile(path string) (data []byte, touched time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	if data, err = io.ReadAll(f); err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	return data, info.ModTime(), nil
}
