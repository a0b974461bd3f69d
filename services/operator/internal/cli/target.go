package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// CheckTarget refuses a path that no file can be written to, before anything is asked or made: a directory, a device
// such as /dev/null, which a rename would replace, and a directory that is missing or not writable. "" is no path.
func CheckTarget(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return Usage("%s is not a regular file, and is not replaced. Try: the name of a new file", output.Quote(path))
	}
	dir := filepath.Dir(path)
	probe, err := os.CreateTemp(dir, ".probe-*")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Usage("there is no directory %[1]s for %[2]s. Try: mkdir -p %[1]s", output.Quote(dir),
			output.Quote(path))
	case err != nil:
		return Usage("cannot write to directory %s: %v", output.Quote(dir), err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
