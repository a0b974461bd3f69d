package strictdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// maxLinks is how many symbolic links may be on the way to one path.
const maxLinks = 40

// resolve checks everything on the way to a path, and returns where the path leads and what is
// there, which the caller checks. info is nil when a part is missing. A link at the end is followed
// only with followLast.
func resolve(path string, followLast bool) (at string, info fs.FileInfo, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	at, rest := "/", split(abs)
	for links := 0; ; {
		if info, err = os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			return at, nil, nil
		} else if err != nil {
			return at, nil, err
		}
		isLink := info.Mode()&fs.ModeSymlink != 0
		if len(rest) == 0 && !(isLink && followLast) {
			return at, info, nil
		}
		if err := checkEntry(at, info, onTheWay); err != nil {
			return at, nil, err
		}
		if !isLink {
			at, rest = filepath.Join(at, rest[0]), rest[1:]
			continue
		}
		if links++; links > maxLinks {
			return at, nil, fault.New(fault.Invalid, "%s: too many symbolic links", path)
		}
		target, err := os.Readlink(at)
		if err != nil {
			return at, nil, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at, rest = "/", slices.Concat(split(target), rest)
	}
}

// split returns the parts of an absolute path.
func split(path string) []string {
	return strings.FieldsFunc(filepath.Clean(path), func(r rune) bool { return r == '/' })
}
