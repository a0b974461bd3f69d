// Package strictdir refuses directories and files that another user could change, as sshd does with
// StrictModes. Programs check their data directory with it, and each file that they execute or trust.
//
// Guarantees:
//
//  1. What passes belongs to root or to the user of this process, and so does every directory and
//     every symbolic link on the way to it from the root of the file system.
//  2. Group and others can write none of them. The exception is a directory on the way with the
//     sticky bit, such as /tmp: there only the owner of an entry can replace it.
//  3. A data directory is not itself a symbolic link.
//  4. A refusal has the code UNSAFE_PERMISSIONS. It names the path, its owner and mode, and the
//     command that corrects it.
//
// Only root or this user can change what passed, so nothing changes between the check and the use.
package strictdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
)

// Dir refuses a data directory that another user could change. Of a path that is not there yet it
// checks the directories that are.
func Dir(path string) error {
	at, info, err := resolve(path, false)
	switch {
	case err != nil || info == nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return refuseLink(at)
	case !info.IsDir():
		return fault.New(fault.Invalid, "%s is not a directory", at)
	}
	return checkEntry(at, info, last)
}

// Make makes a data directory and the missing ones above it, and refuses what Dir refuses.
func Make(path string, mode fs.FileMode) error {
	if err := Dir(path); err != nil {
		return err
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return Dir(path) // in a sticky directory another user may have been first
}

// File refuses a file that another user could change. The error is fs.ErrNotExist without a file.
func File(path string) error {
	_, err := file(path)
	return err
}

// ReadFile reads a file that no other user could have changed.
func ReadFile(path string) ([]byte, error) {
	at, err := file(path)
	if err != nil {
		return nil, err
	}
	return regular.ReadFile(at)
}

// ReadSecret reads a file that no other user could have changed or read.
func ReadSecret(path string) ([]byte, error) {
	at, err := secret(path)
	if err != nil {
		return nil, err
	}
	return regular.ReadFile(at)
}

// Secret refuses a file that another user could change or read. The error is fs.ErrNotExist without a file.
func Secret(path string) error {
	_, err := secret(path)
	return err
}

func secret(path string) (at string, err error) {
	if at, err = file(path); err != nil {
		return "", err
	}
	info, err := os.Lstat(at)
	if err != nil {
		return "", err
	}
	if info.Mode()&othersRead != 0 {
		return "", refuseReadable(at, info)
	}
	return at, nil
}

func file(path string) (at string, err error) {
	at, info, err := resolve(path, true)
	switch {
	case err != nil:
		return "", err
	case info == nil:
		return "", &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case !info.Mode().IsRegular():
		return "", fault.New(fault.Invalid, "%s is not a regular file", at)
	}
	return at, checkEntry(at, info, last)
}

// Tree refuses a directory in which another user could change anything, at any depth. A missing
// directory has nothing in it.
func Tree(path string) error {
	if err := Dir(path); err != nil {
		return err
	}
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return checkEntry(at, info, last)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

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

// Sync makes durable which entries a directory has: a rename or a removal in it survives a power cut afterwards.
func Sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
