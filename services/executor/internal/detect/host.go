package detect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The limits of a program that a detector runs.
const (
	commandWithin = 15 * time.Second
	maxOutput     = 8 << 20
	maxComplaint  = 200
)

// find returns the path of a program on the server, or "" without it.
func (s *Scan) find(names ...string) string {
	for _, name := range names {
		path := filepath.Join(s.Root, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// output runs a program to its end and returns what it printed, of at most most bytes. What it started and left in its
// process group is killed then, or with it when it does not end in time.
func output(ctx context.Context, most int, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, said := &limited{most: most, full: cancel}, &limited{most: maxComplaint}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	endGroup(cmd.Process)
	switch {
	case out.over:
		return out.kept.Bytes(), fmt.Errorf("%s printed more than %d bytes", path, most)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s did not end within %s", path, commandWithin)
	case errors.Is(err, exec.ErrWaitDelay):
		return out.kept.Bytes(), nil // what it left holds its output open
	case err != nil:
		return out.kept.Bytes(), fmt.Errorf("%s: %w %s", path, err, strings.TrimSpace(said.kept.String()))
	}
	return out.kept.Bytes(), nil
}

// endGroup kills what a program that ended left in its process group. As long as any of it runs, no other group gets
// the number; and where a process has it as its id, none of it runs.
func endGroup(p *os.Process) {
	if p != nil && errors.Is(syscall.Kill(p.Pid, 0), syscall.ESRCH) {
		_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	}
}

// limited keeps the beginning of an output. The buffer is no embedded field: its ReadFrom has no limit.
type limited struct {
	kept bytes.Buffer
	most int
	full func() // called once when there is more
	over bool
}

// Write implements io.Writer and never fails.
func (l *limited) Write(p []byte) (int, error) {
	room := l.most - l.kept.Len()
	l.kept.Write(p[:min(len(p), room)])
	if len(p) > room && !l.over {
		if l.over = true; l.full != nil {
			l.full()
		}
	}
	return len(p), nil
}

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

// lines calls line for each line of a regular file. It reads at most most bytes.
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
