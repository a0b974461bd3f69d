package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// object is an ELF file without code.
type object struct {
	loader  string
	needs   []string
	runpath string
}

// bytes returns the file: its header, a program header for the loader, and the sections .dynamic and .dynstr.
func (o object) bytes(t *testing.T) []byte {
	t.Helper()
	texts := []byte{0}
	text := func(s string) uint64 {
		at := len(texts)
		texts = append(append(texts, s...), 0)
		return uint64(at)
	}
	var dynamic []elf.Dyn64
	for _, name := range o.needs {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: text(name)})
	}
	if o.runpath != "" {
		dynamic = append(dynamic, elf.Dyn64{Tag: int64(elf.DT_RUNPATH), Val: text(o.runpath)})
	}
	dynamic = append(dynamic, elf.Dyn64{})
	const headers = 64 + 56
	loaderAt := uint64(headers)
	textsAt := loaderAt + uint64(len(o.loader)) + 1
	dynamicAt := textsAt + uint64(len(texts))
	dynamicSize := uint64(16 * len(dynamic))
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Phentsize: 56, Ehsize: 64,
		Shoff: dynamicAt + dynamicSize, Shentsize: 64, Shnum: 3, Shstrndx: 2,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	if o.loader != "" {
		h.Phnum = 1
	}
	var out bytes.Buffer
	for _, part := range []any{
		h, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: loaderAt, Filesz: uint64(len(o.loader)) + 1},
		append([]byte(o.loader), 0), texts, dynamic, elf.Section64{},
		elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynamicAt, Size: dynamicSize, Link: 2, Entsize: 16},
		elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: textsAt, Size: uint64(len(texts))},
	} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// TestMissingNamesWhatTheLoaderDoesNotFind has a server with libc.so.6 in a directory and libz.so.1 in the cache only.
func TestMissingNamesWhatTheLoaderDoesNotFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, data, 0o755)
			if err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	ld := write("lib/ld.so", nil)
	write("lib/libc.so.6", object{}.bytes(t))
	write("image/lib/libown.so.1", object{needs: []string{"libdeep.so.2", "libc.so.6"}}.bytes(t))
	here := System{
		Cache: write("cache", []byte("glibc\x00libz.so.1\x00/usr/lib/libz.so.1\x00/usr/lib/libq.so.3\x00")),
		Dirs:  []string{filepath.Join(dir, "li?")},
	}
	own := "LD_LIBRARY_PATH=" + filepath.Join(dir, "image", "lib")
	for name, c := range map[string]struct {
		of   object
		env  []string
		want []string
	}{
		"all is there": {object{ld, []string{"libc.so.6", "libz.so.1", "libq.so.3"}, ""}, nil, nil},
		"two are missing": {
			object{ld, []string{"libb.so.1", "libc.so.6", "liba.so.1"}, ""}, nil, []string{"liba.so.1", "libb.so.1"},
		},
		"a part of a cached name": {object{ld, []string{"z.so.1"}, ""}, nil, []string{"z.so.1"}},
		"in the image, not named": {object{ld, []string{"libown.so.1"}, ""}, nil, []string{"libown.so.1"}},
		"in the image, which lacks": {
			object{ld, []string{"libown.so.1"}, "$ORIGIN/lib"}, nil, []string{"libdeep.so.2"},
		},
		"in the image, by a variable": {
			object{ld, []string{"libown.so.1"}, ""}, []string{own}, []string{"libdeep.so.2"},
		},
		"where it cannot tell": {object{ld, []string{"liba.so.1"}, "/opt/$LIB"}, nil, nil},
		"a path":               {object{ld, []string{"/opt/liba.so.1"}, ""}, nil, nil},
		"no loader":            {object{"/ld-none.so", []string{"liba.so.1"}, ""}, nil, []string{"/ld-none.so"}},
		"for musl":             {object{write("lib/ld-musl-x.so.1", nil), []string{"libpthread.so"}, ""}, nil, nil},
		"linked statically":    {object{"", nil, ""}, nil, nil},
	} {
		program := write("image/program", c.of.bytes(t))
		if have := here.Missing(program, c.env); !slices.Equal(have, c.want) {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
	for script, want := range map[string][]string{
		"#!/bin/none -e\nexit\n": {"/bin/none"}, "#!/bin/sh\nexit\n": nil, "text": nil, "": nil,
	} {
		if have := here.Missing(write("image/script", []byte(script)), nil); !slices.Equal(have, want) {
			t.Errorf("%q: %q, want %q", script, have, want)
		}
	}
}

// TestProgramsOfThisServerLackNothing holds the guarantee against what its own loader starts.
func TestProgramsOfThisServerLackNothing(t *testing.T) {
	for _, p := range []string{"/bin/sh", "/bin/ls", "/usr/bin/env", "/usr/bin/awk", "/usr/bin/java"} {
		if have := Here.Missing(p, nil); len(have) > 0 {
			t.Errorf("%s lacks %q", p, have)
		}
	}
}
