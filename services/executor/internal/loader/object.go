package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/regular"
)

// object is what the dynamic loader reads of a program or a library: by its program headers, as the loader does, since
// sections may lie or be compressed.
type object struct {
	loader string   // of a program that is not linked statically
	needs  []string // the names of libraries
	paths  []string // where it says that they lie: directories with colons
}

// The most that is read of an object, which a stranger may have made. Of one with more, nothing is known.
const (
	mostHeaders = 128
	mostEntries = 4096    // of its dynamic section
	mostTexts   = 4 << 20 // bytes of its string table; large programs export many names
	mostNeeds   = 512
	longestName = 4096
)

var errUnknown = errors.New("not an object for this loader, or too large")

// readObject reads a file. An object of another class or byte order is refused, as is what is no object.
func readObject(path string) (o object, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return o, err
	}
	defer func() { _ = f.Close() }()
	var h elf.Header64
	if err := readAt(f, 0, &h); err != nil {
		return o, err
	}
	if !readable(h) {
		return o, errUnknown
	}
	headers := make([]elf.Prog64, h.Phnum)
	if err := readAt(f, h.Phoff, headers); err != nil {
		return o, err
	}
	read := map[elf.ProgType]bool{}
	for _, p := range headers {
		kind := elf.ProgType(p.Type)
		switch {
		case kind != elf.PT_INTERP && kind != elf.PT_DYNAMIC:
			continue
		case read[kind]:
			return o, errUnknown // each of many would take as much
		case kind == elf.PT_INTERP:
			o.loader, err = textAt(f, p.Off, min(p.Filesz, longestName))
		default:
			err = o.readDynamic(f, p, headers)
		}
		read[kind] = true
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// readable reports whether a header is that of an object whose program headers are read.
func readable(h elf.Header64) bool {
	return bytes.HasPrefix(h.Ident[:], []byte(elf.ELFMAG)) && elf.Class(h.Ident[elf.EI_CLASS]) == elf.ELFCLASS64 &&
		elf.Data(h.Ident[elf.EI_DATA]) == elf.ELFDATA2LSB && h.Phentsize == 56 && h.Phnum <= mostHeaders
}

// readDynamic reads the names and the search paths of an object.
func (o *object) readDynamic(f *os.File, p elf.Prog64, headers []elf.Prog64) error {
	if p.Filesz > mostEntries*16 {
		return errUnknown
	}
	entries := make([]elf.Dyn64, p.Filesz/16)
	if err := readAt(f, p.Off, entries); err != nil {
		return err
	}
	if end := slices.IndexFunc(entries, func(d elf.Dyn64) bool { return elf.DynTag(d.Tag) == elf.DT_NULL }); end >= 0 {
		entries = entries[:end]
	}
	texts, err := table(f, headers, value(entries, elf.DT_STRTAB), value(entries, elf.DT_STRSZ))
	if err != nil {
		return err
	}
	return o.note(entries, texts)
}

// value returns the value of the last entry with a tag, or 0.
func value(entries []elf.Dyn64, tag elf.DynTag) (v uint64) {
	for _, d := range entries {
		if elf.DynTag(d.Tag) == tag {
			v = d.Val
		}
	}
	return v
}

// note keeps the names and the search paths.
func (o *object) note(entries []elf.Dyn64, texts []byte) error {
	for _, d := range entries {
		tag := elf.DynTag(d.Tag)
		if tag != elf.DT_NEEDED && tag != elf.DT_RPATH && tag != elf.DT_RUNPATH {
			continue
		}
		text, ok := textIn(texts, d.Val)
		if !ok || len(o.needs)+len(o.paths) == mostNeeds {
			return errUnknown
		}
		list := &o.needs
		if tag != elf.DT_NEEDED {
			list = &o.paths
		}
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	return nil
}

// table reads the string table that is loaded at an address.
func table(f *os.File, headers []elf.Prog64, at, size uint64) ([]byte, error) {
	for _, p := range headers {
		if elf.ProgType(p.Type) == elf.PT_LOAD && at >= p.Vaddr && at-p.Vaddr < p.Filesz {
			if size > mostTexts || size > p.Filesz-(at-p.Vaddr) {
				return nil, errUnknown
			}
			texts := make([]byte, size)
			return texts, readAt(f, p.Off+(at-p.Vaddr), texts)
		}
	}
	return nil, nil // it names nothing
}

// textIn returns the text at a place of a string table.
func textIn(texts []byte, at uint64) (string, bool) {
	if at >= uint64(len(texts)) {
		return "", false
	}
	rest := texts[at:min(uint64(len(texts)), at+longestName)]
	end := bytes.IndexByte(rest, 0)
	if end < 0 {
		return "", false
	}
	return string(rest[:end]), true
}

// textAt reads a text of so many bytes, its zero included.
func textAt(f *os.File, at, size uint64) (string, error) {
	text := make([]byte, size)
	err := readAt(f, at, text)
	return strings.TrimRight(string(text), "\x00"), err
}

// readAt reads a value, or values, at a place.
func readAt(f *os.File, at uint64, to any) error {
	return binary.Read(io.NewSectionReader(f, int64(at), int64(binary.Size(to))), binary.LittleEndian, to)
}
