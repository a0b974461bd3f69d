// Package archive has the rules for the entries of an image's archive: their names, and what their symbolic links
// lead to. The build applies them before it packs an entry, the executor before it unpacks one.
//
//	tree := archive.NewTree()
//	name, err := archive.CheckName(header.Name)
//	tree.Add(name, header.Typeflag)
//	err = tree.AddLink(name, header.Linkname)
//	for _, link := range tree.Links() {
//		err = tree.Follow(link)
//	}
//
// Guarantees:
//
//  1. An archive whose entries all pass the build breaks none of these rules on a server.
//  2. A link that Follow lets pass leads to a file or directory of the tree, without leaving it on the way.
//  3. Every refusal is of kind Invalid, has a code and names the entry in quotes.
package archive

import (
	"archive/tar"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// maxFollowed is how many links one link may lead through, itself included. Executors that resolve links with
// os.Root follow as many.
const maxFollowed = 8

// Tree is the entries of an archive. It is not safe for concurrent use.
type Tree struct {
	types   map[string]byte // by clean name
	targets map[string]string
	links   []string
}

// NewTree returns a tree of nothing but its top, the directory ".".
func NewTree() *Tree {
	return &Tree{types: map[string]byte{".": tar.TypeDir}, targets: map[string]string{}}
}

// Type returns the tar type of an entry by its clean name, and whether the tree has it.
func (t *Tree) Type(name string) (byte, bool) {
	kind, ok := t.types[name]
	return kind, ok
}

// Len returns the number of entries, the top included.
func (t *Tree) Len() int { return len(t.types) }

// Add adds an entry by its clean name. A symbolic link needs AddLink as well.
func (t *Tree) Add(name string, kind byte) { t.types[name] = kind }

// AddLink adds the target of a symbolic link, or refuses a target that is empty, too long, not relative, not
// printable UTF-8, or holds a backslash (LINK_ESCAPES). Follow decides where the link leads.
func (t *Tree) AddLink(name, target string) error {
	switch {
	case target == "":
		return badLink(name, "is empty")
	case len(target) > MaxName:
		return badLink(name, "leads to %.40q…, which has %d bytes, more than %d", target, len(target), MaxName)
	case path.IsAbs(target):
		return badLink(name, "leads to %q, which is not a relative path", target)
	case unprintable(target) != "":
		return badLink(name, "leads to %q, which %s", target, unprintable(target))
	}
	t.types[name], t.targets[name] = tar.TypeSymlink, target
	t.links = append(t.links, name)
	return nil
}

// Links returns the names of the symbolic links, in the order in which they were added.
func (t *Tree) Links() []string { return t.links }

// Follow refuses a symbolic link that leads out of the tree, nowhere, or in a circle (LINK_ESCAPES). The tree must
// be complete.
func (t *Tree) Follow(link string) error {
	dir, rest := path.Dir(link), strings.Split(t.targets[link], "/")
	for followed := 1; len(rest) > 0; {
		var part string
		if part, rest = rest[0], rest[1:]; part == "" || part == "." {
			continue
		}
		if part == ".." {
			if dir == "." {
				return badLink(link, "leads to %q, out of the image", t.targets[link])
			}
			dir = path.Dir(dir)
			continue
		}
		at := path.Join(dir, part)
		switch kind, ok := t.types[at]; {
		case !ok:
			return badLink(link, "leads to %q, which is not in the image", t.targets[link])
		case kind == tar.TypeDir:
			dir = at
		case kind == tar.TypeSymlink:
			if followed++; followed > maxFollowed {
				return badLink(link, "leads to %q, in a circle or through more than %d links", t.targets[link],
					maxFollowed)
			}
			rest = append(strings.Split(t.targets[at], "/"), rest...)
		case len(rest) > 0:
			return badLink(link, "leads to %q by way of %q, which is not a directory", t.targets[link], at)
		}
	}
	return nil
}

func badLink(name, format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.LinkEscapes, "the symbolic link %q "+format,
		append([]any{name}, args...)...).Try("a relative link to a file or directory of the image")
}

// Reserved is the name, at the top of an image, of the mark with which an executor seals it.
const Reserved = ".garrison-image"

// MaxName bounds the name of an entry and the target of a link, in bytes.
const MaxName = 4 << 10

const (
	rename      = "another name, then garrison image build DIR"
	reservedTop = Reserved + "/"
)

// CheckName returns the clean form of an entry's name, or refuses it: a name that is too long, not printable UTF-8,
// or holds a backslash (BAD_NAME), that does not stay within the image (BAD_ARCHIVE), or that is reserved
// (RESERVED_NAME).
func CheckName(name string) (string, error) {
	if len(name) > MaxName {
		return "", badName("the name %.40q… has %d bytes, more than %d", name, len(name), MaxName)
	}
	if why := unprintable(name); why != "" {
		return "", badName("the name %q %s", name, why)
	}
	clean := path.Clean(name)
	if name == "" || path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") {
		return "", fault.Refusef(fault.Invalid, code.BadArchive, "the name %q does not stay within the image", name)
	}
	if clean == Reserved || strings.HasPrefix(clean, reservedTop) {
		return "", fault.Refusef(fault.Invalid, code.ReservedName, "the name %q is reserved for Garrison", name).
			Try(rename)
	}
	return clean, nil
}

func badName(format string, args ...any) error {
	return fault.Refusef(fault.Invalid, code.BadName, format, args...).Try(rename)
}

// unprintable returns what a name or the target of a link holds that it must not, or nothing.
func unprintable(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "has a control character"
	case strings.Contains(s, `\`):
		return "has a backslash"
	}
	return ""
}
