package imagedir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/archive"
)

// A look at an image compares the listing of its directory with the one in its mark, for the price of one stat a file;
// it reads no content. An entry that differs or is missing is damage. An entry that was added is not: agents write
// beside their program, as Python does with its caches, and ending them for it would never end. It is named.

// entry is what a look compares of a file, a link or a directory.
type entry struct {
	Name   string      `json:"name"`
	Mode   fs.FileMode `json:"mode"`
	Size   int64       `json:"size,omitempty"` // of a regular file, as is Time
	Time   int64       `json:"time,omitempty"`
	Target string      `json:"target,omitempty"` // of a link
	Sum    []byte      `json:"sum,omitempty"`    // the sha256 of a regular file; looks do not read it
}

// line is the entry in the digest of a listing.
func (e entry) line() string {
	line := fmt.Sprintf("%q %s", e.Name, e.Mode)
	switch {
	case e.Mode.IsRegular():
		line += fmt.Sprintf(" %d %d", e.Size, e.Time)
	case e.Mode&fs.ModeSymlink != 0:
		line += fmt.Sprintf(" %q", e.Target)
	}
	return line
}

// differs returns how an entry differs from one of the same name, or "".
func (e entry) differs(now entry) string {
	switch {
	case e.Mode.Type() != now.Mode.Type():
		return "is of another type"
	case e.Target != now.Target:
		return "leads to " + shown(now.Target) + " instead of " + shown(e.Target)
	case e.Size != now.Size || e.Time != now.Time:
		return "has another content"
	case e.Mode != now.Mode:
		return fmt.Sprintf("has mode %04o instead of %04o", now.Mode.Perm(), e.Mode.Perm())
	}
	return ""
}

// listing is the entries of a directory, in the order of their names.
type listing []entry

// list lists a directory without the mark.
func list(dir string) (out listing, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == archive.Reserved {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := entry{Name: name, Mode: info.Mode()}
		switch {
		case e.Mode.IsRegular():
			e.Size, e.Time = info.Size(), info.ModTime().UnixNano()
		case e.Mode&fs.ModeSymlink != 0:
			e.Target, err = os.Readlink(path)
		}
		out = append(out, e)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return out, nil
}

// digest digests the listing.
func (l listing) digest() string {
	h := sha256.New()
	for _, e := range l {
		_, _ = fmt.Fprintln(h, e.line()) // never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// compare returns how what is there now differs, and the entries that were added: of an added directory, itself.
func (l listing) compare(now listing) (damaged, added words) {
	was := make(map[string]entry, len(l))
	for _, e := range l {
		was[e.Name] = e
	}
	in := "" // the added directory in which the walk is
	for _, n := range now {
		e, known := was[n.Name]
		delete(was, n.Name)
		if !known {
			if in == "" || !strings.HasPrefix(n.Name, in) {
				in = n.Name + "/"
				added = append(added, shown(n.Name))
			}
		} else if how := e.differs(n); how != "" {
			damaged = append(damaged, shown(n.Name)+" "+how)
		}
	}
	for _, e := range l {
		if _, missing := was[e.Name]; missing {
			damaged = append(damaged, shown(e.Name)+" is missing")
		}
	}
	return damaged, added
}

// longestName bounds a name in a text, in bytes.
const longestName = 200

// shown returns a name as a text may hold it: an agent chooses those of its files.
func shown(name string) string {
	if name == "." {
		return "its directory"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) }) || !utf8.ValidString(name) {
		name = strconv.Quote(name)
	}
	if over := len(name) - longestName; over > 0 {
		name = "…" + strings.ToValidUTF8(name[over:], "")
	}
	return name
}

// words are what a look names.
type words []string

// mostNamed bounds what a text names.
const mostNamed = 3

// String returns them as a person reads them, a bounded number of them.
func (w words) String() string {
	if more := len(w) - mostNamed; more > 0 {
		return strings.Join(w[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(w, ", ")
}

// tree compares what is in a directory with a mark, and returns how it is damaged and what was added, in words.
func (m Mark) tree(dir string) (damaged, added string, err error) {
	now, err := list(dir)
	if err != nil || now.digest() == m.Tree {
		return "", "", err
	}
	var was listing
	if json.Unmarshal(m.Files, &was) != nil || was.digest() != m.Tree { // an older executor listed none
		return "a file is not as it was unpacked", "", nil
	}
	differ, more := was.compare(now)
	return differ.String(), more.String(), nil
}
