package faults_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// spot is an installed agent on a server's disk.
type spot struct{ root, agent string }

func (s spot) path(parts ...string) string {
	return filepath.Join(append([]string{s.root, "agents", s.agent}, parts...)...)
}

// image returns the directory of the agent's image.
func (s spot) image() (string, error) { return filepath.EvalSymlinks(s.path("current")) }

// damage is what somebody does by hand to an installed agent.
type damage struct {
	kind  string
	cause string // by which the check names it
	usual bool   // it is done without -damages
	do    func(s spot) error
}

// damages are kinds of damage to an agent on a server. Each is done to an agent of its own.
var damages = []damage{
	{"a file's content changed, its size and time kept", code.Damaged, true, inImage(func(dir string) error {
		return inPlace(filepath.Join(dir, "VERSION"), func(data []byte) []byte {
			return []byte(strings.Repeat("x", len(data)))
		})
	})},
	{"a file's content changed", code.Damaged, false, inImage(func(dir string) error {
		path := filepath.Join(dir, "VERSION")
		return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte("by hand"), 0o644))
	})},
	{"a file emptied", code.Damaged, false, inImage(func(dir string) error {
		return os.Truncate(filepath.Join(dir, "VERSION"), 0)
	})},
	{"a file deleted", code.Damaged, false, inImage(func(dir string) error {
		return os.Remove(filepath.Join(dir, "VERSION"))
	})},
	{"a file renamed", code.Damaged, false, inImage(func(dir string) error {
		return os.Rename(filepath.Join(dir, "VERSION"), filepath.Join(dir, "VERSION.bak"))
	})},
	{"a file replaced by a link", code.Damaged, false, inImage(func(dir string) error {
		path := filepath.Join(dir, "VERSION")
		return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path))
	})},
	{"the program not executable", code.Damaged, false, inImage(func(dir string) error {
		return os.Chmod(filepath.Join(dir, "idle"), 0o444)
	})},
	{"a file writable by all", code.Damaged, false, inImage(func(dir string) error {
		return os.Chmod(filepath.Join(dir, "VERSION"), 0o666)
	})},
	{"the image's seal deleted", code.ImageLost, false, inImage(func(dir string) error {
		return os.RemoveAll(filepath.Join(dir, ".garrison-image"))
	})},
	{"the image's directory deleted", code.ImageLost, true, func(s spot) error {
		dir, err := s.image()
		return errors.Join(err, os.Chmod(dir, 0o755), os.RemoveAll(dir))
	}},
	{"the link deleted", code.LinkMissing, false, func(s spot) error { return os.Remove(s.path("current")) }},
	{"the link leads elsewhere", code.LinkElsewhere, true, func(s spot) error {
		return errors.Join(os.Remove(s.path("current")), os.Symlink("/nowhere", s.path("current")))
	}},
	{"a directory in place of the link", code.LinkElsewhere, false, func(s spot) error {
		return errors.Join(os.Remove(s.path("current")), os.Mkdir(s.path("current"), 0o755))
	}},
	{"a configuration file changed", code.ConfigurationChanged, true, func(s spot) error {
		path := s.path("config", "idle.conf")
		return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte("by hand"), 0o644))
	}},
	{"a configuration file deleted", code.ConfigurationChanged, false, func(s spot) error {
		dir, err := filepath.EvalSymlinks(s.path("config"))
		return errors.Join(err, os.Chmod(dir, 0o755), os.Remove(filepath.Join(dir, "idle.conf")))
	}},
	{"the link to the configuration deleted", code.ConfigurationChanged, false, func(s spot) error {
		return os.Remove(s.path("config"))
	}},
	{"all configurations deleted", code.ConfigurationChanged, false, func(s spot) error {
		dir, err := filepath.EvalSymlinks(s.path("config"))
		return errors.Join(err, os.Chmod(dir, 0o755), os.RemoveAll(s.path("configs")))
	}},
	{"the process stopped", code.ProcessStopped, true, func(s spot) error {
		return syscall.Kill(s.pid(), syscall.SIGSTOP)
	}},
	{"the state's directory deleted", code.DirectoryMissing, false, func(s spot) error {
		return os.RemoveAll(s.path("state"))
	}},
	{"the process's directory deleted", code.DirectoryMissing, false, func(s spot) error {
		return os.RemoveAll(s.path("run"))
	}},
	{"the agent's directory deleted", code.LinkMissing, false, func(s spot) error {
		if dir, err := filepath.EvalSymlinks(s.path("config")); err == nil {
			_ = os.Chmod(dir, 0o755)
		}
		return os.RemoveAll(s.path())
	}},
}

// inImage returns a function that changes the directory of an image, which is writable meanwhile.
func inImage(do func(dir string) error) func(spot) error {
	return func(s spot) error {
		dir, err := s.image()
		if err != nil {
			return err
		}
		return errors.Join(os.Chmod(dir, 0o755), do(dir), os.Chmod(dir, 0o555))
	}
}

// inPlace changes a file's content and keeps its mode and its time.
func inPlace(path string, change func([]byte) []byte) error {
	was, err := os.Stat(path)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	return errors.Join(err, os.Chmod(path, 0o644), os.WriteFile(path, change(data), 0o644),
		os.Chmod(path, was.Mode()), os.Chtimes(path, was.ModTime(), was.ModTime()))
}

// pid returns the id of the agent's process as its record has it; 0 without one.
func (s spot) pid() int {
	var r struct{ Pid int }
	for _, path := range must(filepath.Glob(s.path("run", "process-*.json"))) {
		data, err := os.ReadFile(path)
		if err == nil && json.Unmarshal(data, &r) == nil {
			return r.Pid
		}
	}
	return 0
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sum returns a digest of what the agent has: names, modes, links and contents of its image and configuration, which of
// its directories are there, and whether its process is stopped.
func (s spot) sum() string {
	sum := sha256.New()
	for _, link := range []string{"current", "config"} {
		target, _ := os.Readlink(s.path(link))
		fmt.Fprintln(sum, link, target)
		dir, err := filepath.EvalSymlinks(s.path(link))
		if err != nil {
			continue
		}
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() == ".garrison-image" && d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(sum, strings.TrimPrefix(path, dir), info.Mode())
			if data, err := os.ReadFile(path); err == nil && d.Name() != ".garrison-image" {
				fmt.Fprintf(sum, "%x\n", sha256.Sum256(data))
			}
			return nil
		})
	}
	for _, dir := range []string{"state", "run"} {
		_, err := os.Stat(s.path(dir))
		fmt.Fprintln(sum, dir, err == nil)
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid()))
	fmt.Fprintln(sum, strings.Contains(string(stat), ") T "))
	return fmt.Sprintf("%x", sum.Sum(nil))
}
