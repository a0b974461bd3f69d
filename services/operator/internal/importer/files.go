package importer

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

// The limits of a dump.
const (
	maxFiles = 100_000
	maxBytes = 1 << 30
)

// dumpFiles are the files of a directory and of those in it.
type dumpFiles struct {
	read   []declare.File
	others []string // their names only
}

// readDump reads a directory: the files that may hold objects, and the names of the others.
func readDump(dir string) (out dumpFiles, err error) {
	total, count := int64(0), 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if count++; count > maxFiles {
			return cli.Usage("%s has more than %d files", dir, maxFiles)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if !slices.Contains(triton.ManifestEndings, filepath.Ext(path)) || strings.HasPrefix(e.Name(), ".") {
			out.others = append(out.others, filepath.ToSlash(name))
			return nil
		}
		f, err := readFile(path)
		f.Name = filepath.ToSlash(name)
		if total += int64(len(f.Data)); err == nil && total > maxBytes {
			return cli.Usage("the files of %s have more than %d bytes together", dir, int64(maxBytes))
		}
		out.read = append(out.read, f)
		return err
	})
	if err == nil && len(out.read) == 0 {
		err = cli.Usage("%s has no file *%s", dir, strings.Join(triton.ManifestEndings, ", *"))
	}
	return out, err
}

// readFile reads a file, and at most one byte more than it may have: its reader checks it.
func readFile(path string) (declare.File, error) {
	f, err := regular.OpenNamed(path)
	if err != nil {
		return declare.File{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, declare.MaxFile+1))
	return declare.File{Name: path, Data: data}, err
}
