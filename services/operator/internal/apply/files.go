package apply

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// maxFiles is how many files a directory may hold.
const maxFiles = 10_000

// readSet reads what the arguments of -f name: files, directories, or - for standard input.
func readSet(env *cli.Env, names []string) (*declare.Set, error) {
	if len(names) == 0 {
		return nil, cli.Usage("-f is missing. Try: -f FILE, -f DIRECTORY, or -f - for standard input")
	}
	var files []declare.File
	for _, name := range names {
		more, err := readFiles(env, name)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return declare.Read(files)
}

func readFiles(env *cli.Env, name string) ([]declare.File, error) {
	if name == "-" {
		data, err := io.ReadAll(io.LimitReader(env.In, declare.MaxFile+1))
		return []declare.File{{Name: "standard input", Data: data}}, err
	}
	if err := cli.CheckPath(name, "garrison export >FILE, which writes one"); err != nil {
		return nil, cli.Usage("-f: %v", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, cli.Usage("-f: %v", err)
	}
	if !info.IsDir() {
		f, err := readFile(regular.OpenNamed(name))
		f.Name = name
		return []declare.File{f}, err
	}
	entries, err := os.ReadDir(name) // sorted by name
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return e.IsDir() || strings.HasPrefix(e.Name(), ".") ||
			!slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name()))
	})
	if len(entries) == 0 || len(entries) > maxFiles {
		return nil, cli.Usage("-f %s: the directory has %d files *.yaml, *.yml and *.json; want 1 to %d", name,
			len(entries), maxFiles)
	}
	var out []declare.File
	for _, e := range entries {
		f, err := readFile(regular.OpenIn(name, e.Name()))
		if err != nil {
			return nil, cli.Usage("-f: %v", err)
		}
		f.Name = filepath.Join(name, e.Name())
		out = append(out, f)
	}
	return out, nil
}

func readFile(f *os.File, err error) (declare.File, error) {
	if err != nil {
		return declare.File{}, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, declare.MaxFile+1))
	return declare.File{Data: data}, err
}
