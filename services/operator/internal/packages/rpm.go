package packages

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

const (
	leadMagic   = "\xed\xab\xee\xdb"
	leadSize    = 96
	headerMagic = "\x8e\xad\xe8\x01"
	maxEntries  = 1 << 16  // of a header
	maxStore    = 32 << 20 // bytes of a header's values
)

// The tags of a header that are read.
const (
	tagName, tagVersion, tagRelease, tagSummary = 1000, 1001, 1002, 1004
	tagArch, tagSource, tagFormat               = 1022, 1106, 1124
	tagFlags, tagDirIndex, tagBase, tagDir      = 1037, 1116, 1117, 1118
	tagNeedFlags, tagNeed, tagNeedVersion       = 1048, 1049, 1050
	tagConflict, tagCapable, tagUser            = 1054, 5010, 1039
)

// scriptTags are the tags of scripts.
var scriptTags = []struct {
	tag  uint32
	name string
}{
	{1151, "%pretrans"}, {1023, "%pre"}, {1024, "%post"}, {1025, "%preun"}, {1026, "%postun"}, {1152, "%posttrans"},
	{1065, "%trigger"}, {5076, "%transfiletriggerin"}, {5066, "%filetriggerin"},
}

// readRPM reads an RPM package: a lead, the header of the signatures, the header, and a compressed cpio archive.
func readRPM(whole unpack.Archive) (s software, err error) {
	_, at, err := readHeader(whole, leadSize)
	if err != nil {
		return s, err
	}
	h, at, err := readHeader(whole, (at+7)/8*8)
	if err != nil {
		return s, err
	}
	if format := cmp.Or(h.text(tagFormat), "cpio"); format != "cpio" {
		return s, damaged(whole.Name, fmt.Sprintf("its payload is %.20q, want cpio", format))
	}
	if len(h.numbers(tagSource)) > 0 {
		return s, damaged(whole.Name, "it is a source package")
	}
	s.format, s.name, s.arch, s.summary = "rpm", h.text(tagName), h.text(tagArch), h.text(tagSummary)
	s.version = imageVersion(h.text(tagVersion), h.text(tagRelease))
	if s.name == "" || h.text(tagVersion) == "" {
		return s, damaged(whole.Name, "its header has no name or no version")
	}
	s.tags = map[string]string{
		"package.name": s.name, "package.version": h.text(tagVersion) + "-" + h.text(tagRelease),
	}
	for _, t := range scriptTags {
		if text := h.texts(t.tag); len(text) > 0 {
			s.scripts = append(s.scripts, script{t.name, strings.Join(text, "\n")})
		}
	}
	s.conflicts = h.texts(tagConflict)
	h.needs(&s)
	h.files(&s)
	s.archive = unpack.Archive{
		Name: whole.Name, From: io.NewSectionReader(whole.From, at, whole.Size-at), Size: whole.Size - at, CPIO: true,
		Package: true,
	}
	return s, nil
}

// header is a header of an RPM package: values by tag.
type header struct {
	index map[uint32]indexEntry
	store []byte
}

// indexEntry says where a value stands.
type indexEntry struct{ Tag, Type, Offset, Count uint32 }

// readHeader reads the header at a position, and returns the position behind it. A header is a magic number, four
// bytes, the number of its index entries, the size of its store, and both.
func readHeader(whole unpack.Archive, at int64) (h header, end int64, err error) {
	const fixed, entrySize = 16, 16
	start := make([]byte, fixed)
	if _, err := whole.From.ReadAt(start, at); err != nil || !bytes.HasPrefix(start, []byte(headerMagic)) {
		return h, 0, damaged(whole.Name, fmt.Sprintf("it has no header at byte %d", at))
	}
	count, size := int64(binary.BigEndian.Uint32(start[8:])), int64(binary.BigEndian.Uint32(start[12:]))
	at += fixed
	if count > maxEntries || size > maxStore || at+count*entrySize+size > whole.Size {
		return h, 0, damaged(whole.Name, "a header is cut off or too large")
	}
	data := make([]byte, count*entrySize+size)
	if _, err := whole.From.ReadAt(data, at); err != nil {
		return h, 0, damaged(whole.Name, "a header cannot be read: "+err.Error())
	}
	h = header{map[uint32]indexEntry{}, data[count*entrySize:]}
	for n := range count {
		var e indexEntry
		if _, err := binary.Decode(data[n*entrySize:], binary.BigEndian, &e); err != nil {
			return h, 0, err
		}
		h.index[e.Tag] = e
	}
	return h, at + int64(len(data)), nil
}

// texts returns the strings of a tag. What lies outside of the store is missing.
func (h header) texts(tag uint32) (out []string) {
	const text, list, translated = 6, 8, 9
	e, ok := h.index[tag]
	if !ok || e.Type != text && e.Type != list && e.Type != translated || int64(e.Offset) > int64(len(h.store)) {
		return nil
	}
	rest := h.store[e.Offset:]
	for range e.Count {
		value, more, ok := bytes.Cut(rest, []byte{0})
		if !ok {
			break
		}
		out, rest = append(out, string(value)), more
	}
	return out
}

// text returns the first string of a tag.
func (h header) text(tag uint32) string {
	return strings.Join(h.texts(tag)[:min(1, len(h.texts(tag)))], "")
}

// numbers returns the 32-bit numbers of a tag.
func (h header) numbers(tag uint32) (out []uint32) {
	const number, size = 4, 4
	e, ok := h.index[tag]
	if !ok || e.Type != number || int64(e.Offset)+int64(e.Count)*size > int64(len(h.store)) {
		return nil
	}
	for n := range e.Count {
		out = append(out, binary.BigEndian.Uint32(h.store[e.Offset+n*size:]))
	}
	return out
}

// needs adds what the package requires, but for features of rpm itself.
func (h header) needs(s *software) {
	const less, greater, equal = 2, 4, 8
	flags, versions := h.numbers(tagNeedFlags), h.texts(tagNeedVersion)
	for n, name := range h.texts(tagNeed) {
		if strings.HasPrefix(name, "rpmlib(") {
			continue
		}
		if n < len(flags) && n < len(versions) && versions[n] != "" {
			op := ""
			for _, o := range []struct {
				bit uint32
				is  string
			}{{less, "<"}, {greater, ">"}, {equal, "="}} {
				if flags[n]&o.bit != 0 {
					op += o.is
				}
			}
			name += " " + op + " " + versions[n]
		}
		if !slices.Contains(s.needs, name) {
			s.needs = append(s.needs, name)
		}
	}
}

// files adds the configuration files and those with capabilities.
func (h header) files(s *software) {
	const isConfig = 1
	dirs, at, flags, capable := h.texts(tagDir), h.numbers(tagDirIndex), h.numbers(tagFlags), h.texts(tagCapable)
	users := h.texts(tagUser)
	s.owners = map[string]string{}
	for n, base := range h.texts(tagBase) {
		if n >= len(at) || int(at[n]) >= len(dirs) {
			continue
		}
		name := strings.TrimLeft(dirs[at[n]]+base, "/")
		if n < len(flags) && flags[n]&isConfig != 0 {
			s.configs = append(s.configs, name)
		}
		if n < len(capable) && capable[n] != "" {
			s.capable = append(s.capable, name)
		}
		if n < len(users) && users[n] != "root" {
			s.owners[name] = users[n]
		}
	}
}
