package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// errNotRegular is the error for a directory, a pipe or a device in the place of a file.
var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file of the directory, or one that a link leads to. It never waits for a pipe.
func openRegular(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	// A pipe that replaced the file since is opened without waiting for its writer, and refused.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// unreadable returns why a file of the directory cannot be read, without the name of the system call.
func unreadable(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is not in the directory"
	case errors.Is(err, errNotRegular):
		return "is not a regular file"
	}
	return fmt.Sprintf("cannot be read: %v", reason(err))
}

// reason returns the cause of a failed system call without the name of the call.
func reason(err error) error {
	if at := new(fs.PathError); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// notPacked returns the error for an entry that was listed and cannot be read.
func notPacked(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotRegular) {
		return changed(name)
	}
	return fmt.Errorf("%q %s", name, unreadable(err))
}

func changed(name string) error { return refuse(code.Changed, "%q changed while it was packed", name) }

// contentReader reads a file of the directory until its context is done.
type contentReader struct {
	ctx  context.Context
	file io.Reader
	name string
}

// Read implements io.Reader.
func (c *contentReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.file.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = notPacked(c.name, err)
	}
	return n, err
}
