package uninstall

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Options say how an uninstall ends.
type Options struct {
	Keep      bool               // leave the mark, for the next start of a container
	FailPoint func(point string) // for tests: told between the steps
}

// Begin writes the mark. From here on Finish is all that is left to do.
func Begin(root layout.Root, m Mark, o Options) error {
	if _, err := m.check(); err != nil {
		return err
	}
	if err := m.write(root); err != nil {
		return err
	}
	o.at("marked")
	return nil
}

func (o Options) at(point string) {
	if o.FailPoint != nil {
		o.FailPoint(point)
	}
}

// Finish removes everything of the inventory, the mark last. It needs a mark that holds.
// It gives what stays; an error means that something did not go, and the mark is left.
func Finish(root layout.Root, o Options) (left []Item, err error) {
	server, err := Marked(root)
	if err != nil {
		return nil, err
	}
	if server == "" {
		return nil, fault.New(fault.NotFound, "nothing under %s says that it may be removed", root)
	}
	items, err := Inventory(root)
	if err != nil {
		return nil, err
	}
	home, own := map[string]bool{root.Home(): true, string(root): true}, []Item{}
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
			o.at("removed " + filepath.Base(i.Path))
		}
	}
	if o.Keep {
		return left, layout.SyncDir(root.Home())
	}
	return left, last(root, own, o)
}

// last removes the mark, its directory and the root. Where the root cannot go, as it is
// a mounted file system or lies in a directory of somebody else's, it stays, empty.
func last(root layout.Root, dirs []Item, o Options) error {
	if err := layout.SyncDir(root.Home()); err != nil {
		return err
	}
	if err := os.Remove(root.Tombstone()); err != nil {
		return fmt.Errorf("remove the mark: %w", err)
	}
	o.at("unmarked")
	for _, d := range dirs {
		if unix.Rmdir(d.Path) != nil {
			return nil
		}
		o.at("removed " + filepath.Base(d.Path))
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

// Sweep takes away the directories that a crash right before the end left, when they are
// empty. It is called where nobody ever joined, or where nothing is left of who did.
func Sweep(root layout.Root) {
	_ = unix.Rmdir(root.Home())
	_ = unix.Rmdir(string(root))
}
