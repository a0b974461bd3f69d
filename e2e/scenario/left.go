package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// NothingLeft returns an error when a server has processes or files of agents.
func NothingLeft(s *fleet.Server) error {
	pids, err := s.AgentProcesses()
	if err != nil || len(pids) > 0 {
		return errors.Join(err, fmt.Errorf("processes %v run", pids))
	}
	for _, dir := range []string{"agents", "images", "cache"} {
		entries, err := os.ReadDir(filepath.Join(s.Root, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			return fmt.Errorf("%s/%s is left", dir, e.Name())
		}
	}
	return nil
}

// NothingAt returns an error when a path exists.
func NothingAt(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}

// Left returns an error unless no instances are left.
func Left(instances int) error {
	if instances == 0 {
		return nil
	}
	return fmt.Errorf("%d instances are left", instances)
}
