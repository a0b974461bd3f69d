package layout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// probe is the name of what Takes and Moves make and delete.
const probe = TemporaryPrefix + "probe"

// Takes refuses a root where no file of an agent can be written: the options of a mount do not show a directory that
// is immutable, a disk that fails or a layer of an overlay that is gone. A full disk is not refused: a reservation
// makes room on it. A missing directory is not looked at.
func Takes(r Root, agent string) error {
	for _, dir := range []string{r.Agents(), r.Images(), r.Cache(), r.Agent(agent)} {
		if err := take(filepath.Join(dir, probe)); err != nil && !errors.Is(err, fs.ErrNotExist) && !Full(err) {
			return refuseWrite(dir, err)
		}
	}
	return nil
}

// take makes and deletes a file. Another change may do the same at the same time.
func take(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it follows no link
	switch {
	case errors.Is(err, fs.ErrExist):
		return os.Remove(path)
	case err != nil:
		return err
	}
	_, err = f.Write([]byte("1"))
	return errors.Join(err, f.Close(), ignoreMissing(os.Remove(path)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) { // of a file in a file
		return nil
	}
	return err
}

// Moves refuses an agent whose directory cannot be moved within its parent, as one in a lower layer of an overlay. It
// moves nothing: no directory takes the place of one with an entry. A missing agent is not refused.
func Moves(r Root, agent string) (err error) {
	taken := filepath.Join(r.Agents(), probe+"-"+agent)
	defer func() { err = errors.Join(err, removeProbe(taken)) }()
	if err := os.MkdirAll(filepath.Join(taken, probe), 0o700); err != nil {
		if Full(err) {
			return nil
		}
		return refuseWrite(r.Agents(), err)
	}
	switch err := unix.Rename(r.Agent(agent), taken); {
	case err == nil:
		return errors.Join(fault.New(fault.Internal, "%s was not in the way of a move", taken),
			os.Rename(taken, r.Agent(agent)))
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		return fault.Refusef(fault.Invalid, code.OtherFileSystem,
			"%s cannot be moved: a part of it lies on another file system, or in a lower layer of an overlay",
			r.Agent(agent))
	default:
		return refuseWrite(r.Agent(agent), err)
	}
}

// removeProbe deletes what Takes or Moves made, and nothing that holds anything else.
func removeProbe(path string) error {
	return errors.Join(ignoreMissing(os.Remove(filepath.Join(path, probe))), ignoreMissing(os.Remove(path)))
}

// SweepProbes deletes what a crash left of Takes and Moves beside the agents.
func SweepProbes(r Root) error {
	entries, err := os.ReadDir(r.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if strings.HasPrefix(d.Name(), probe) {
			err = errors.Join(err, removeProbe(r.Agent(d.Name())))
		}
	}
	return err
}

// refuseWrite refuses a directory in which nothing can be changed.
func refuseWrite(dir string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return fault.Refusef(fault.Invalid, code.RootReadOnly, "%s is on a file system that is read-only", dir)
	}
	why := err
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		why = at.Err
	}
	return fault.Refusef(fault.Invalid, code.RootFaulty, "nothing can be changed in %s: %v", dir, why)
}

// Full reports whether an error means that a disk, or a quota on it, is full.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// Faulty reports whether an error comes from a disk or a file system that fails.
func Faulty(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ESTALE) || errors.Is(err, unix.EUCLEAN)
}
