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
