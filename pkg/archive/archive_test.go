package archive_test

import (
	"archive/tar"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestNamesAreRefusedWithTheirCode(t *testing.T) {
	for name, want := range map[string]string{
		"a": "", "./a/b": "", "d/": "", "./": "", "a b/é": "", archive.Reserved + "s": "", "d/" + archive.Reserved: "",
		strings.Repeat("n/", archive.MaxName/2): "",

		"": code.BadArchive, "/a": code.BadArchive, "..": code.BadArchive, "a/../b": code.BadArchive,
		archive.Reserved: code.ReservedName, "./" + archive.Reserved + "/": code.ReservedName,
		archive.Reserved + "/a": code.ReservedName,
		"a\nb":                  code.BadName, "a\x00": code.BadName, "a\x7f": code.BadName, "a\xff": code.BadName,
		`a\b`: code.BadName, strings.Repeat("n", archive.MaxName+1): code.BadName,
	} {
		clean, err := archive.CheckName(name)
		if have := fault.RefusalOf(err).GetCode(); have != want || err == nil && clean != path.Clean(name) {
			t.Errorf("%.40q: %q, %v; want %q", name, clean, err, want)
		}
	}
}

func TestALinkIsRefusedForItsTarget(t *testing.T) {
	for name, target := range map[string]string{
		"empty": "", "absolute": "/etc/passwd", "too long": strings.Repeat("n", archive.MaxName+1),
		"not UTF-8": "a\xff", "control": "a\nb", "backslash": `a\b`,
	} {
		err := archive.NewTree().AddLink("l", target)
		if fault.RefusalOf(err).GetCode() != code.LinkEscapes || !strings.Contains(err.Error(), `"l"`) {
			t.Errorf("%s: %v; want %s for link l", name, err, code.LinkEscapes)
		}
	}
}

// treeOf returns a tree of the files d/f and g and of links.
func treeOf(t *testing.T, links map[string]string) *archive.Tree {
	t.Helper()
	tree := archive.NewTree()
	tree.Add("d", tar.TypeDir)
	tree.Add("d/f", tar.TypeReg)
	tree.Add("g", tar.TypeReg)
	for name, target := range links {
		if err := tree.AddLink(name, target); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestALinkThatLeadsToAnEntryPasses(t *testing.T) {
	for _, target := range []string{"g", "./d/f", "d", "d/", "d/../g", "d//f", ".", "up/g"} {
		if err := treeOf(t, map[string]string{"l": target, "d/l": "../l", "up": "d/.."}).Follow("d/l"); err != nil {
			t.Errorf("a link to %q: %v", target, err)
		}
	}
}

func TestALinkThatLeadsToNoEntryIsRefusedWithTheReason(t *testing.T) {
	for says, links := range map[string]map[string]string{
		"which is not in the image":     {"l": "nope"},
		`"d/../../g", out of the image`: {"l": "d/../../g"},
		`"top/..", out of the image`:    {"l": "top/..", "top": "d/.."},
		"in a circle":                   {"l": "m", "m": "l"},
		"more than 8 links": {
			"l": "1", "1": "2", "2": "3", "3": "4", "4": "5", "5": "6", "6": "7", "7": "8", "8": "g",
		},
		`by way of "g", which is not a directory`: {"l": "g/../d"},
	} {
		err := treeOf(t, links).Follow("l")
		if fault.RefusalOf(err).GetCode() != code.LinkEscapes || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v; want %s that says %s", links, err, code.LinkEscapes, says)
		}
	}
}

func TestALinkMayLeadThroughEightLinks(t *testing.T) {
	tree := treeOf(t, map[string]string{
		"1": "2", "2": "3", "3": "4", "4": "5", "5": "6", "6": "7", "7": "8", "8": "g",
	})
	if err := tree.Follow("1"); err != nil {
		t.Error(err)
	}
}

// What os.Root resolves on a disk is the oracle: executors resolved links with it before this package did.
func TestALinkPassesExactlyWhereADiskResolvesIt(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	types := rapid.SampledFrom([]byte{tar.TypeDir, tar.TypeReg, tar.TypeSymlink, tar.TypeSymlink})
	step := rapid.SampledFrom([]string{"a", "b", "c", "..", "..", "."})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "archive-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		tree, dirs := archive.NewTree(), []string{"."}
		for range rapid.IntRange(1, 12).Draw(t, "entries") {
			entry := path.Join(rapid.SampledFrom(dirs).Draw(t, "in"), name.Draw(t, "name"))
			if _, there := tree.Type(entry); there {
				continue
			}
			kind := types.Draw(t, "type")
			target := strings.Join(rapid.SliceOfN(step, 1, 4).Draw(t, "target"), "/") +
				rapid.SampledFrom([]string{"", "/"}).Draw(t, "end")
			if err := place(dir, tree, entry, kind, target); err != nil {
				t.Fatal(err)
			}
			if kind == tar.TypeDir {
				dirs = append(dirs, entry)
			}
		}
		for _, link := range tree.Links() {
			_, onDisk := root.Stat(link)
			if err := tree.Follow(link); (err == nil) != (onDisk == nil) {
				t.Fatalf("link %s: %v; the disk says %v", link, err, onDisk)
			}
		}
	})
}

// place makes an entry on disk and in the tree.
func place(dir string, tree *archive.Tree, name string, kind byte, target string) error {
	at := filepath.Join(dir, name)
	switch kind {
	case tar.TypeDir:
		tree.Add(name, kind)
		return os.Mkdir(at, 0o755)
	case tar.TypeReg:
		tree.Add(name, kind)
		return os.WriteFile(at, nil, 0o644)
	}
	if err := tree.AddLink(name, target); err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	return os.Symlink(target, at)
}
