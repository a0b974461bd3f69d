// Package regular opens files that a person, a program or an agent names, and nothing else: the open of a FIFO waits
// for a writer that may never come, and a device may never end.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNot marks what exists and is no regular file.
var ErrNot = errors.New("not a regular file")

// Open opens a regular file for reading. It never waits: other kinds are refused with ErrNot.
func Open(path string) (*os.File, error) {
	return checked(os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0))
}

// OpenNamed opens a file that a person named on a command line: a regular one, or what the shell opened for it, as for
// <(command).
func OpenNamed(path string) (*os.File, error) {
	if strings.HasPrefix(path, "/dev/fd/") {
		return os.Open(path)
	}
	return Open(path)
}

// OpenIn opens a regular file below a directory. It follows links only to what is below the directory.
func OpenIn(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := checked(root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0))
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		path.Path = filepath.Join(dir, name)
	}
	return f, err
}

// ReadFile reads a regular file.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

func checked(f *os.File, err error) (*os.File, error) {
	if err != nil {
		if errors.Is(err, unix.ENXIO) { // a socket
			err = fmt.Errorf("%w: %w", ErrNot, err)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !empty(info) {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: fmt.Errorf("%w but %s", ErrNot, kind(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// empty reports whether a file is /dev/null, which ends at once.
func empty(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == unix.Mkdev(1, 3)
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "of another kind"
}
