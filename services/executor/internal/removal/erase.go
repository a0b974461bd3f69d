package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Begin writes the mark. From here on Finish is all that is left to do.
func Begin(c Config, m Mark) error {
	if _, err := m.check(); err != nil {
		return err
	}
	if err := m.write(c.Root); err != nil {
		return err
	}
	c.at("marked")
	return nil
}

func (c Config) at(point string) {
	if c.FailPoint != nil {
		c.FailPoint(point)
	}
}

func (c Config) expect(within time.Duration) {
	if c.Expect != nil {
		c.Expect(within)
	}
}

// Complete finishes a removal that was begun, and logs what stays. It reports whether one was.
func Complete(c Config) (done bool, err error) {
	server, err := Marked(c.Root)
	if err != nil {
		c.Log.Error().Err(err).Msg("invalid tombstone; nothing is removed")
		return false, nil
	}
	if server == "" {
		return false, nil
	}
	left, err := Finish(c)
	for _, i := range left {
		c.Log.Warn().Str(logs.Path, i.Path).Str(logs.Reason, i.LeftBecause).Msg("path stays")
	}
	if err != nil {
		return true, fmt.Errorf("uninstall: %w", err)
	}
	for _, path := range installedByHand(c.Program) {
		c.Log.Info().Str(logs.Path, path).Str(logs.Reason, byHand).Msg("path stays")
	}
	c.Log.Info().Str(logs.Server, server).Msg("server decommissioned; executor removed")
	return true, nil
}

// Finish removes everything in the inventory, the mark last. It needs a valid mark. It returns
// what stays; after an error something was not removed, and the mark is left.
func Finish(c Config) (left []Item, err error) {
	server, err := Marked(c.Root)
	if err != nil {
		return nil, err
	}
	if server == "" {
		return nil, fault.New(fault.NotFound, "no mark under %s allows a removal", c.Root)
	}
	items, err := Inventory(c.Root)
	if err != nil {
		return nil, err
	}
	home, own := map[string]bool{c.Root.Home(): true, string(c.Root): true}, []Item{}
	for _, i := range items {
		switch {
		case i.LeftBecause != "":
			left = append(left, i)
		case home[i.Path]:
			own = append(own, i)
		default:
			if err := remove(i); err != nil {
				return left, err
			}
			c.at("removed " + filepath.Base(i.Path))
		}
	}
	if err := layout.SyncDir(c.Root.Home()); err != nil || c.KeepMark {
		return left, err
	}
	return left, c.removeMark(own)
}

// removeMark removes the mark, its directory and the root. A root that cannot be removed, for
// example a mount point, stays, empty.
func (c Config) removeMark(dirs []Item) error {
	if err := os.Remove(c.Root.Tombstone()); err != nil {
		return fmt.Errorf("remove the mark: %w", err)
	}
	c.at("unmarked")
	for _, d := range dirs {
		if unix.Rmdir(d.Path) != nil {
			return nil
		}
		c.at("removed " + filepath.Base(d.Path))
	}
	return nil
}

func remove(i Item) error {
	var err error
	if i.Dir {
		err = unix.Rmdir(i.Path)
	} else {
		err = imagedir.RemoveTree(i.Path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}

// Sweep removes the directories that a crash right before the end left, when they are empty.
func Sweep(root layout.Root) {
	_ = unix.Rmdir(root.Home())
	_ = unix.Rmdir(string(root))
}
