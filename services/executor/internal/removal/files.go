package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Item is a path that goes, or that stays for a reason.
type Item struct {
	Path        string // absolute
	LeftBecause string // empty when it goes
	Own         bool   // it stays, and may be Garrison's: an agent that the inventory does not know
	Agent       string // with which it goes, before the rest
	Dir         bool   // it goes when it is empty
}

// Foreign reports whether the path stays because somebody else put it, or something in it, there.
func (i Item) Foreign() bool { return i.LeftBecause != "" && !i.Own }

const (
	notOurs   = "not Garrison's"
	notOurDir = "not a directory of Garrison's"
	notEmpty  = "something in it stays"
	changed   = "changed since the join wrote it"
	unmanaged = "an agent that the inventory does not know"
)

// Inventory returns everything under the root in the order in which it goes: what an
// uninstall was interrupted without first, what it is finished with last. The mark
// itself is not in it. The directories of agents that are still installed go with them.
func Inventory(root layout.Root, installed ...string) ([]Item, error) {
	var l list
	for _, dir := range []string{root.Cache(), root.Images()} {
		l.dir(dir, isDigest)
	}
	l.dir(root.Busy(), isSection)
	l.agents(root, installed)
	l.home(root)
	for _, name := range l.entries(string(root)) {
		switch path := root.Path(name); path {
		case root.Cache(), root.Images(), root.Agents(), root.Busy(), root.Home():
		default:
			l.leave(path, notOurs)
		}
	}
	for _, dir := range []string{root.Home(), string(root)} {
		if !layout.Missing(dir) {
			l.empty(dir)
		}
	}
	return l.items, l.err
}

// home adds the files of the executor's own directory.
func (l *list) home(root layout.Root) {
	for _, name := range l.entries(root.Home()) {
		path := filepath.Join(root.Home(), name)
		switch {
		case isTemporary(name) || journal.IsAside(name):
			l.take(path)
		case !slices.Contains(root.Own(), path) && path != root.Tombstone():
			l.leave(path, notOurs)
		}
	}
	for _, path := range root.Own() {
		switch {
		case layout.Missing(path):
		case path == root.ImageKeys() && !identity.ImageKeysAsJoined(root):
			l.leave(path, changed)
		default:
			l.take(path)
		}
	}
}

// list is an inventory in the making.
type list struct {
	items []Item
	err   error
}

func (l *list) take(path string) { l.items = append(l.items, Item{Path: path}) }

func (l *list) leave(path, because string) {
	l.items = append(l.items, Item{Path: path, LeftBecause: because})
}

// empty adds a directory that goes when nothing in it stays.
func (l *list) empty(dir string) {
	i := Item{Path: dir, Dir: true}
	for _, have := range l.items {
		if have.LeftBecause != "" && strings.HasPrefix(have.Path, dir+"/") {
			i.LeftBecause = notEmpty
		}
	}
	l.items = append(l.items, i)
}

// dir adds a directory and what is ours in it.
func (l *list) dir(dir string, ours func(name string) bool) {
	if !l.isDir(dir) {
		return
	}
	for _, name := range l.entries(dir) {
		if ours(name) || isTemporary(name) {
			l.take(filepath.Join(dir, name))
		} else {
			l.leave(filepath.Join(dir, name), notOurs)
		}
	}
	l.empty(dir)
}

// agents adds the directory of all agents. An agent's own goes with its instance.
func (l *list) agents(root layout.Root, installed []string) {
	dir := root.Agents()
	if !l.isDir(dir) {
		return
	}
	for _, name := range l.entries(dir) {
		switch path := filepath.Join(dir, name); {
		case slices.Contains(installed, name):
			l.items = append(l.items, Item{Path: path, Agent: name})
		case isTemporary(name):
			l.take(path)
		case isLink(root.Current(name)):
			l.items = append(l.items, Item{Path: path, LeftBecause: unmanaged, Own: true})
		default:
			l.leave(path, notOurs)
		}
	}
	l.empty(dir)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// isDir reports whether there is a directory. A link in its place is not followed, and stays.
func (l *list) isDir(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.err = errors.Join(l.err, err)
		}
		return false
	}
	if !info.IsDir() {
		l.leave(dir, notOurDir)
	}
	return info.IsDir()
}

func (l *list) entries(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.err = errors.Join(l.err, fmt.Errorf("list %s: %w", dir, err))
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func isTemporary(name string) bool { return strings.HasPrefix(name, layout.TemporaryPrefix) }

func isSection(name string) bool { return strings.HasSuffix(name, layout.SectionSuffix) }

func isDigest(name string) bool {
	_, ok := layout.Digest(name)
	return ok
}
