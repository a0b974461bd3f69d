package configdir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Digest names the tree: it differs when any path, mode, content or the group does. It
// is empty for a tree without files.
func (t Tree) Digest() string {
	if len(t.Files) == 0 {
		return ""
	}
	files := slices.SortedFunc(slices.Values(t.Files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	h := sha256.New()
	for _, f := range files {
		_, _ = fmt.Fprintf(h, "%q %o %d %x\n", f.Path, f.Mode.Perm(), t.Group, sha256.Sum256(f.Data))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Place brings the tree to the disk as dir, sealed and durable, whatever is there.
func (t Tree) Place(dir string) error {
	if Check(dir) == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	tmp := filepath.Join(parent, layout.TemporaryPrefix+filepath.Base(dir))
	if err := errors.Join(os.MkdirAll(parent, 0o755), imagedir.RemoveTree(tmp)); err != nil {
		return fmt.Errorf("place configuration: %w", err)
	}
	err := t.write(tmp)
	if err == nil {
		err = imagedir.RemoveTree(dir) // one that is damaged
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err == nil {
		err = errors.Join(layout.SyncDir(parent), layout.SyncDir(filepath.Dir(parent)))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("place configuration: %w", err), imagedir.RemoveTree(tmp))
	}
	return nil
}

func (t Tree) write(dir string) error {
	for _, f := range t.Files {
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := t.writeFile(path, f); err != nil {
			return err
		}
	}
	return errors.Join(imagedir.SealDirs(dir), layout.SyncAll(dir))
}

// writeFile sets a file's group before its content, so that no other user reads it. Nothing
// is forked meanwhile: a child would keep the file from being executed (package unpack).
func (t Tree) writeFile(path string, f File) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = out.Chown(-1, t.Group)
	if err == nil {
		_, err = out.Write(f.Data)
	}
	if err == nil {
		err = out.Chmod(f.Mode.Perm())
	}
	return errors.Join(err, out.Close())
}

// Check compares a directory with its name.
func Check(dir string) error {
	t, err := read(dir)
	if err != nil {
		return fmt.Errorf("the configuration is not whole: %w", err)
	}
	if t.Digest() != filepath.Base(dir) {
		return errors.New("the configuration's files are not as they were rendered")
	}
	return nil
}

// read returns what is in a directory. Files of more than one group make a tree of none.
func read(dir string) (Tree, error) {
	t := Tree{Group: -1}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, dir+string(filepath.Separator))
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() > maxBytes {
			return fmt.Errorf("%s is not one of its files", name)
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && (t.Group == -1 || t.Group == int(s.Gid)) {
			t.Group = int(s.Gid)
		} else {
			return fmt.Errorf("%s has another group", name)
		}
		data, err := regular.ReadFile(path)
		t.Files = append(t.Files, File{Path: name, Mode: info.Mode().Perm(), Data: data})
		return err
	})
	return t, err
}
