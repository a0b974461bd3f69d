package packages

import (
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/render"
)

// tree is the directory that becomes the image.
type tree struct{ *os.Root }

// isFile reports whether it has a regular file.
func (t tree) isFile(name string) bool {
	if !filepath.IsLocal(name) {
		return false
	}
	info, err := t.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// isDir reports whether it has a directory.
func (t tree) isDir(name string) bool {
	if !filepath.IsLocal(name) {
		return false
	}
	info, err := t.Stat(name)
	return err == nil && info.Mode().IsDir()
}

// maxText bounds a file of a package that is read, in bytes.
const maxText = render.MaxTemplate

// text returns a file that has at most maxText bytes.
func (t tree) text(name string) (string, error) {
	f, err := t.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(data) > maxText {
		return "", fault.Refusef(fault.Invalid, code.TooLarge, "%s has more than %d bytes", name, maxText)
	}
	return string(data), err
}

// files calls do with the regular files.
func (t tree) files(do func(name string)) {
	_ = fs.WalkDir(t.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			do(name)
		}
		return nil
	})
}

// machine returns the architecture of a program; empty for a script.
func (t tree) machine(name string) string {
	f, err := t.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	program, err := elf.NewFile(io.ReaderAt(f))
	if err != nil {
		return ""
	}
	return program.Machine.String()
}
