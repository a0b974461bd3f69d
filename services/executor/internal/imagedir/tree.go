package imagedir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/archive"
)

// treeOf digests the listing of a directory: name, type, mode, size and time of every
// file and the target of every link. It finds what was changed by the usual means, for
// the price of one stat a file; it does not read the files.
func treeOf(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == archive.Reserved {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %s", name, info.Mode())
		switch {
		case info.Mode().IsRegular():
			line += fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", target)
		}
		_, err = fmt.Fprintln(h, line)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list %s: %w", dir, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
