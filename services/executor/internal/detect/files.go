package detect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// tree reads files below one directory. No symbolic link leads out of it.
type tree struct{ *os.Root }

// below opens a directory of the server; an error is fs.ErrNotExist without it.
func (s *Scan) below(dir string) (tree, error) {
	root, err := os.OpenRoot(filepath.Join(s.Root, dir))
	return tree{root}, err
}

// read returns a regular file of at most most bytes.
func (t tree) read(name string, most int64) ([]byte, error) {
	f, err := t.regular(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}

// lines calls line for each line of a regular file, of which it reads at most most bytes.
func (t tree) lines(ctx context.Context, name string, most int64, line func(string)) error {
	f, err := t.regular(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(io.LimitReader(f, most))
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for n := 0; lines.Scan(); n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line(lines.Text())
	}
	return lines.Err()
}

func (t tree) regular(name string) (*os.File, error) {
	info, err := t.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return t.Open(name)
}

// list returns the names in a directory, sorted, at most most of them.
func (t tree) list(name string, most int) ([]string, error) {
	d, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(most)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
