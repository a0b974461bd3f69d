package chaos

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// drifts are the ways in which an administrator can damage by hand what Garrison installed.
var drifts = []struct {
	name string
	do   func(s *rig.Server, agent string) error
}{
	{"a file of the image changed", func(s *rig.Server, agent string) error {
		return inImage(s, agent,
			func(path string) error { return os.WriteFile(path, []byte("changed by hand"), 0o600) })
	}},
	{"a file of the image deleted", func(s *rig.Server, agent string) error {
		return inImage(s, agent, os.Remove)
	}},
	{"the link deleted", func(s *rig.Server, agent string) error { return os.Remove(currentOf(s, agent)) }},
	{"the link moved", func(s *rig.Server, agent string) error {
		return errors.Join(os.Remove(currentOf(s, agent)), os.Symlink("/nowhere", currentOf(s, agent)))
	}},
	{"the image deleted", func(s *rig.Server, agent string) error {
		dir, err := filepath.EvalSymlinks(currentOf(s, agent))
		if err != nil {
			return err
		}
		return removeSealed(dir)
	}},
	{"the configurations deleted", func(s *rig.Server, agent string) error {
		return removeSealed(filepath.Join(s.Root, "agents", agent, "configs"))
	}},
	{"the agent's directory deleted", func(s *rig.Server, agent string) error {
		return removeSealed(filepath.Join(s.Root, "agents", agent))
	}},
}

// installed is an agent on a server.
type installed struct {
	server *rig.Server
	agent  string
}

// drift damages what an installed agent has on a server.
func (w *World) drift(pick uint64) (string, error) {
	var there []installed
	for _, s := range w.staying() {
		for _, agent := range []string{beacon, tuner} {
			if _, err := os.Stat(filepath.Join(currentOf(s, agent), payload)); err == nil {
				there = append(there, installed{s, agent})
			}
		}
	}
	if len(there) == 0 {
		return "no agent to damage", nil
	}
	of, d := choose(pick, there), choose(pick>>16, drifts)
	err := d.do(of.server, of.agent)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a change took it away meanwhile
	}
	return fmt.Sprintf("%s on %s: %s", of.agent, of.server.Name, d.name), err
}

func currentOf(s *rig.Server, agent string) string {
	return filepath.Join(s.Root, "agents", agent, "current")
}

// inImage calls a function with the payload of an agent's image, which is writable meanwhile.
func inImage(s *rig.Server, agent string, do func(path string) error) error {
	dir, err := filepath.EvalSymlinks(currentOf(s, agent))
	if err != nil {
		return err
	}
	path := filepath.Join(dir, payload)
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chmod(path, 0o600)); err != nil {
		return err
	}
	return do(path)
}

// removeSealed deletes a tree, its read-only directories too.
func removeSealed(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	return os.RemoveAll(dir)
}
