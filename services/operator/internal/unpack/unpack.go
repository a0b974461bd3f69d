// Package unpack reads archives of unknown origin: tar and cpio, plain or behind gzip, bzip2, xz or zstd.
//
//	content, err := unpack.Archive{Name: path, From: file, Size: size}.Scan(ctx)
//	err = content.Extract(ctx, root, content.Top())
//
// Guarantees:
//
//  1. Scan reads an archive to its end and writes nothing. Content exists only for an archive whose every entry may be
//     unpacked: names and links keep the rules of package archive, and there are no devices, no setuid or setgid
//     files, no two entries with one name and none below a file or a link.
//  2. Entries, bytes, the ratio of unpacked to packed bytes and the memory of a decompressor are bounded.
//  3. Extract writes only below its root. It keeps names, contents, links and the executable bit, and nothing else,
//     whatever the umask, the owner or the time.
//  4. Every refusal is of kind Invalid, has a code and names the archive, and the entry where one is at fault.
package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"
)

// Archive is an archive in a file or in a part of one.
type Archive struct {
	Name string // for messages
	From io.ReaderAt
	Size int64 // packed bytes
	CPIO bool  // instead of tar

	// Package marks the files of a package, whose top is the root of a server: names and links may be absolute, and
	// may lead to files of other packages. Such links are left out.
	Package bool
}

// Content is what an archive holds, by clean names.
type Content struct {
	Files   map[string]File
	LeftOut []LeftOut // in the order of names

	archive Archive
	tree    *archive.Tree
	links   map[string]string // the target of each link that is unpacked
	unpacked
}

// File is a regular file of an archive.
type File struct {
	Size         int64
	Mode         fs.FileMode
	Owner        string // empty for root
	Capabilities bool   // the archive has file capabilities for it
}

// LeftOut is an entry that is not unpacked, and why.
type LeftOut struct{ Name, Why string }

// unpacked counts the entries and the bytes of an archive.
type unpacked struct {
	entries int
	bytes   int64
}

// Scan reads the archive to its end, until ctx is done, and returns what it holds.
func (a Archive) Scan(ctx context.Context) (*Content, error) {
	c := &Content{
		archive: a, tree: archive.NewTree(), Files: map[string]File{}, links: map[string]string{},
	}
	err := a.each(ctx, c.add)
	if err == nil {
		err = c.checkLinks()
	}
	if err == nil && c.entries == 0 {
		err = refuse(code.BadArchive, "it is empty")
	}
	return c, a.wrap(err)
}

// add checks an entry.
func (c *Content) add(e entry) error {
	if c.entries++; c.entries > manifest.MaxEntries {
		return refuse(code.TooLarge, "it has more than %d entries", manifest.MaxEntries)
	}
	name, err := archive.CheckName(e.name)
	if err != nil {
		return err
	}
	if kind, there := c.tree.Type(name); there && (kind != tar.TypeDir || e.kind != tar.TypeDir) {
		return refuse(code.BadArchive, "two entries have the name %q", name)
	}
	if err := c.parents(name); err != nil {
		return err
	}
	switch e.kind {
	case tar.TypeDir:
		c.tree.Add(name, tar.TypeDir)
		return nil
	case tar.TypeSymlink:
		return c.link(name, e.link)
	case tar.TypeReg:
		return c.file(name, e)
	case tar.TypeLink:
		to, err := archive.CheckName(e.link)
		if err != nil {
			return err
		}
		of, ok := c.Files[to]
		if !ok {
			return refuse(code.LinkEscapes, "the hard link %q leads to %q, which is no file before it", name, to)
		}
		return c.file(name, entry{mode: int64(of.Mode), size: of.Size, owner: of.Owner, capable: of.Capabilities})
	}
	return refuse(code.SpecialFile, "%q is neither a file, a directory nor a link", name)
}

// parents adds the directories above an entry.
func (c *Content) parents(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		switch kind, there := c.tree.Type(dir); {
		case !there:
			c.tree.Add(dir, tar.TypeDir)
		case kind != tar.TypeDir:
			return refuse(code.BadArchive, "%q lies below %q, which is not a directory", name, dir)
		default:
			return nil
		}
	}
	return nil
}

func (c *Content) file(name string, e entry) error {
	const setID = 0o6000
	if e.mode&setID != 0 {
		return refuse(code.BadArchive, "%q has the setuid or setgid bit", name)
	}
	if c.bytes += e.size; e.size < 0 || c.bytes > c.archive.limit() {
		return c.archive.tooLarge()
	}
	c.tree.Add(name, tar.TypeReg)
	c.Files[name] = File{e.size, fs.FileMode(e.mode) & fs.ModePerm, e.owner, e.capable}
	return nil
}

func (c *Content) link(name, target string) error {
	if c.archive.Package && path.IsAbs(target) {
		target = strings.Repeat("../", strings.Count(name, "/")) + strings.TrimLeft(path.Clean(target), "/")
	}
	if above := path.Join(path.Dir(name), target); above == ".." || strings.HasPrefix(above, "../") {
		return refuse(code.LinkEscapes, "the symbolic link %q leads to %q, out of the archive", name, target)
	}
	c.links[name] = target
	return c.tree.AddLink(name, target)
}

// checkLinks refuses a link that leads nowhere. In a package it is left out: its target may be of another package.
func (c *Content) checkLinks() error {
	for _, name := range c.tree.Links() {
		err := c.tree.Follow(name)
		if err != nil && !c.archive.Package {
			return err
		}
		if err != nil {
			c.LeftOut = append(c.LeftOut, LeftOut{name, fault.RefusalOf(err).GetMessage()})
			delete(c.links, name)
		}
	}
	slices.SortFunc(c.LeftOut, func(a, b LeftOut) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Top returns the directory that holds everything else in the archive; "." without one.
func (c *Content) Top() string {
	top := ""
	for name := range c.names() {
		first, _, below := strings.Cut(name, "/")
		if kind, _ := c.tree.Type(name); top != "" && first != top || !below && kind != tar.TypeDir {
			return "."
		}
		top = first
	}
	if top == "" {
		return "."
	}
	return top
}

// names returns the names of the files and links.
func (c *Content) names() func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range c.Files {
			if !yield(name) {
				return
			}
		}
		for name := range c.links {
			if !yield(name) {
				return
			}
		}
	}
}

// Sorted returns the names of the files in their order.
func (c *Content) Sorted() []string { return slices.Sorted(maps.Keys(c.Files)) }

// ReadFile returns a file of the archive that has at most limit bytes.
func (c *Content) ReadFile(ctx context.Context, name string, limit int64) (text []byte, err error) {
	if f, ok := c.Files[name]; !ok || f.Size > limit {
		return nil, c.archive.wrap(refuse(code.BadArchive, "%q is no file of at most %d bytes", name, limit))
	}
	err = c.archive.each(ctx, func(e entry) error {
		if e.kind != tar.TypeReg || path.Clean(e.name) != name {
			return nil
		}
		var b bytes.Buffer
		_, err := io.CopyN(&b, e.content, e.size)
		text = b.Bytes()
		return err
	})
	return text, c.archive.wrap(err)
}

// Extract writes what is below one directory of the archive into root, until ctx is done.
func (c *Content) Extract(ctx context.Context, root *os.Root, below string) error {
	left := c.bytes
	return c.archive.wrap(c.archive.each(ctx, func(e entry) error {
		name, ok := under(below, e.name)
		if !ok || name == "." {
			return nil
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		switch e.kind {
		case tar.TypeDir:
			return root.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			if target, ok := c.links[path.Clean(e.name)]; ok {
				return root.Symlink(target, name)
			}
			return nil
		case tar.TypeLink:
			to, _ := under(below, e.link)
			return root.Link(to, name)
		}
		if left -= e.size; left < 0 {
			return refuse(code.Changed, "it changed while it was read")
		}
		return write(root, name, e)
	}))
}

// under returns the name of an entry relative to a directory, and whether it is there.
func under(dir, name string) (string, bool) {
	clean := path.Clean(name)
	if dir == "." || clean == dir {
		return strings.TrimPrefix(clean, dir), clean != dir
	}
	return strings.CutPrefix(clean, dir+"/")
}

func write(root *os.Root, name string, e entry) error {
	mode := fs.FileMode(0o644)
	if e.mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, e.content, e.size)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// wrap names the archive in an error. What is no refusal and no failure of this machine is a damaged archive.
func (a Archive) wrap(err error) error {
	_, ofFile := errors.AsType[*fs.PathError](err)
	_, ofLink := errors.AsType[*os.LinkError](err)
	refusal := fault.RefusalOf(err)
	switch {
	case err == nil:
		return nil
	case refusal != nil:
		return fault.Refusef(fault.Invalid, refusal.GetCode(), "%s: %s", a.Name, refusal.GetMessage()).
			Try(refusal.GetTry())
	case ofFile || ofLink || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("unpack %s: %w", a.Name, err)
	}
	return fault.Refusef(fault.Invalid, code.BadArchive, "%s is truncated, damaged or no archive: %v", a.Name, err).
		Try("another copy of the file")
}

func refuse(code, format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code, format, args...)
}
