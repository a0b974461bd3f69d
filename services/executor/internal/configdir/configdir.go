// Package configdir renders the configuration of an agent and keeps it on the disk. A
// rendered directory is named by the digest of everything in it.
//
// Guarantees:
//
//  1. A directory under its digest holds exactly the files that were rendered, with their
//     modes and their group; Check finds any other content, more files or fewer.
//  2. Place makes a directory whole and durable before it has its name, and seals it.
//  3. A template is read from within the image only, and what it becomes is bounded.
package configdir

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/render"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
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

// usualMode is what a manifest leaves out (image.proto, Config).
const usualMode fs.FileMode = 0o640

// maxBytes bounds all files of an agent together.
const maxBytes = 8 << 20

// File is one file of a configuration.
type File struct {
	Path string // relative
	Mode fs.FileMode
	Data []byte
}

// Tree is a configuration. The zero tree has no files, and is on no disk.
type Tree struct {
	Files []File
	Group int // who may read them beside their owner
}

// Render makes the configuration that a run asks for from the templates of an unpacked image.
func Render(image string, run *imagev1.Run, data render.Data) (Tree, error) {
	if len(run.GetConfigs()) == 0 {
		return Tree{}, nil
	}
	group, err := groupOf(run.GetSandbox().GetUser())
	if err != nil {
		return Tree{}, err
	}
	root, err := os.OpenRoot(image)
	if err != nil {
		return Tree{}, err
	}
	defer func() { _ = root.Close() }()
	t, total := Tree{Group: group}, 0
	for _, c := range run.GetConfigs() {
		out, err := renderOne(root, c.GetTemplate(), data)
		if err != nil {
			return Tree{}, err
		}
		if total += len(out); total > maxBytes {
			return Tree{}, fmt.Errorf("the configuration has more than %d bytes", maxBytes)
		}
		mode := fs.FileMode(c.GetMode()) & fs.ModePerm
		if mode == 0 {
			mode = usualMode
		}
		t.Files = append(t.Files, File{Path: filepath.Clean(c.GetPath()), Mode: mode, Data: out})
	}
	return t, nil
}

func renderOne(root *os.Root, path string, data render.Data) ([]byte, error) {
	f, err := root.Open(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("template %s is not a file (%v)", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, render.MaxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", path, err)
	}
	t, err := render.Parse(path, string(text))
	if err != nil {
		return nil, err
	}
	return t.Render(data)
}

// groupOf returns the group of the user that an agent runs as; its files need not be
// readable by everybody for that.
func groupOf(name string) (int, error) {
	if name == "" {
		return os.Getegid(), nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Gid)
}
