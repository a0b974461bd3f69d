package configdir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/render"
)

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
