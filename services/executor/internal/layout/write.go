package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Write replaces a file, whole or not at all, and durably: the file and its directory are synced.
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode, true); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteVolatile replaces a file, whole or not at all, without waiting for the disk: for
// what is written every few seconds and worth nothing after a crash.
func WriteVolatile(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, false)
}

// Overwrite writes over the content of a file of the same size, durably, and takes no room
// on the disk where the file system overwrites blocks in place (ext4, XFS, tmpfs). A file of
// more than one block can be left half written by a power cut.
func Overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("overwrite %s: %w", path, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(data)) {
		return errors.Join(fmt.Errorf("overwrite %s: it does not have %d bytes", path, len(data)), err, f.Close())
	}
	_, err = f.WriteAt(data, 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("overwrite %s: %w", path, err)
	}
	return nil
}

func replace(path string, data []byte, mode fs.FileMode, sync bool) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), TemporaryPrefix+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil && sync {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// SyncDir makes what happened in a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

// SyncAll brings the whole file system to the disk on which a directory is: one call
// instead of one for each file.
func SyncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync all of %s: %w", dir, err)
	}
	if err := errors.Join(unix.Syncfs(int(f.Fd())), f.Close()); err != nil {
		return fmt.Errorf("sync all of %s: %w", dir, err)
	}
	return nil
}

// Link makes path a symbolic link to target, durably: in one step, unless an empty directory is there, which is removed
// first. A directory with files is an error.
func Link(target, path string) error {
	tmp := filepath.Join(filepath.Dir(path), TemporaryPrefix+filepath.Base(path))
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("link %s: %w", path, err)
	}
	if err := os.Symlink(target, tmp); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		_ = os.Remove(path) // when it holds files, the rename fails and says so
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(fmt.Errorf("link %s: %w", path, err), os.Remove(tmp))
	}
	return SyncDir(filepath.Dir(path))
}

// Blocked reports whether a directory with files is where Link would make a link. Link does not delete it.
func Blocked(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || len(entries) > 0
}

// TemporaryPrefix starts the name of every file that is not finished.
const TemporaryPrefix = ".garrison-tmp-"

// SweepTemporary deletes files that a crash left unfinished in a directory. Nothing may
// be written there meanwhile.
func SweepTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), TemporaryPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
