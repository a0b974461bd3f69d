package loader

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// file is an ELF file without code.
type file struct {
	loader  string
	needs   []string
	runpath string
}

// bytes returns the file: its header, headers of a part that is loaded at address 0 and has all of it, of the loader
// and of the dynamic section, and what these name.
func (o file) bytes(t *testing.T) []byte {
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
	const headers = 64 + 3*56
	loaderAt := uint64(headers)
	textsAt := loaderAt + uint64(len(o.loader)) + 1
	dynamic = append(dynamic,
		elf.Dyn64{Tag: int64(elf.DT_STRTAB), Val: textsAt},
		elf.Dyn64{Tag: int64(elf.DT_STRSZ), Val: uint64(len(texts))},
		elf.Dyn64{})
	dynamicAt, dynamicSize := textsAt+uint64(len(texts)), uint64(16*len(dynamic))
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Phentsize: 56, Phnum: 3,
		Ehsize: 64,
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	interp := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: loaderAt, Filesz: uint64(len(o.loader)) + 1}
	if o.loader == "" {
		interp.Type = uint32(elf.PT_NULL)
	}
	var out bytes.Buffer
	for _, part := range []any{
		h, elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: dynamicAt + dynamicSize}, interp,
		elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: dynamicAt, Filesz: dynamicSize},
		append([]byte(o.loader), 0), texts, dynamic,
	} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// machine is the directory of a server's files.
type machine struct {
	*testing.T
	dir string
}

// write writes a file of the server and returns its path.
func (m machine) write(name string, data []byte) string {
	m.Helper()
	path := filepath.Join(m.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o755)
	}
	if err != nil {
		m.Fatal(err)
	}
	return path
}

// server makes a server with libc.so.6 in a directory, libz.so.1 in the cache only, a library for some processors, and
// a FIFO.
func server(t *testing.T) (machine, System) {
	t.Helper()
	m := machine{t, t.TempDir()}
	m.write("lib/libc.so.6", file{}.bytes(t))
	m.write("abilities/glibc-hwcaps/x86-64-v2/libfast.so.1", file{}.bytes(t))
	if err := unix.Mkfifo(filepath.Join(m.dir, "abilities", "libwaits.so.1"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.write("image/lib/libown.so.1", file{needs: []string{"libdeep.so.2", "libc.so.6"}}.bytes(t))
	return m, System{
		Cache: m.write("cache", []byte("glibc\x00libz.so.1\x00/usr/lib/libz.so.1\x00/usr/lib/libq.so.3\x00")),
		Dirs:  []string{filepath.Join(m.dir, "li?")},
	}
}

func TestMissingNamesWhatTheLoaderDoesNotFind(t *testing.T) {
	m, here := server(t)
	ld, abilities := m.write("lib/ld.so", nil), filepath.Join(m.dir, "abilities")
	var many []string
	for n := range 2 * mostNeeds {
		many = append(many, fmt.Sprintf("lib%d.so", n))
	}
	own := "LD_LIBRARY_PATH=" + filepath.Join(m.dir, "image", "lib")
	for name, c := range map[string]struct {
		of   file
		env  []string
		want []string
	}{
		"all is there": {file{ld, []string{"libc.so.6", "libz.so.1", "libq.so.3"}, ""}, nil, nil},
		"two are missing": {
			file{ld, []string{"libb.so.1", "libc.so.6", "liba.so.1"}, ""}, nil, []string{"liba.so.1", "libb.so.1"},
		},
		"a part of a cached name": {file{ld, []string{"z.so.1"}, ""}, nil, []string{"z.so.1"}},
		"in the image, not named": {file{ld, []string{"libown.so.1"}, ""}, nil, []string{"libown.so.1"}},
		"in the image, which lacks": {
			file{ld, []string{"libown.so.1"}, "$ORIGIN/lib"}, nil, []string{"libdeep.so.2"},
		},
		"in the image, by a variable": {
			file{ld, []string{"libown.so.1"}, ""}, []string{own}, []string{"libdeep.so.2"},
		},
		"for a processor": {file{ld, []string{"libfast.so.1"}, abilities}, nil, nil},
		"behind a semicolon": {
			file{ld, []string{"libfast.so.1"}, ""}, []string{"LD_LIBRARY_PATH=/none;" + abilities}, nil,
		},
		"loaded before":        {file{ld, []string{"liba.so.1"}, ""}, []string{"LD_PRELOAD=x.so"}, nil},
		"behind a FIFO":        {file{ld, []string{"libwaits.so.1", "liba.so.1"}, abilities}, nil, nil},
		"too many":             {file{ld, many, ""}, nil, nil},
		"where it cannot tell": {file{ld, []string{"liba.so.1"}, "/opt/$LIB"}, nil, nil},
		"a path":               {file{ld, []string{"/opt/liba.so.1"}, ""}, nil, nil},
		"no loader":            {file{"/ld-none.so", []string{"liba.so.1"}, ""}, nil, []string{"/ld-none.so"}},
		"for musl":             {file{m.write("lib/ld-musl-x.so.1", nil), []string{"libpthread.so"}, ""}, nil, nil},
		"linked statically":    {file{"", nil, ""}, nil, nil},
	} {
		program := m.write("image/program", c.of.bytes(t))
		if have, err := here.Missing(t.Context(), program, c.env); err != nil || !slices.Equal(have, c.want) {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
	for script, want := range map[string][]string{
		"#!/bin/none -e\nexit\n": {"/bin/none"}, "#!/bin/sh\nexit\n": nil, "text": nil, "": nil,
	} {
		have, err := here.Missing(t.Context(), m.write("image/script", []byte(script)), nil)
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%q: %q, want %q", script, have, want)
		}
	}
}

// TestProgramsOfThisServerLackNothing holds the guarantee against what its own loader starts.
func TestProgramsOfThisServerLackNothing(t *testing.T) {
	for _, p := range []string{"/bin/sh", "/bin/ls", "/usr/bin/env", "/usr/bin/awk", "/usr/bin/java"} {
		if have, err := Here.Missing(t.Context(), p, nil); err != nil || len(have) > 0 {
			t.Errorf("%s lacks %q", p, have)
		}
	}
}

// The numbers in the headers of an object are a stranger's: what they ask for is bounded, whatever the file holds.
func TestACraftedHeaderTakesLittleMemory(t *testing.T) {
	m, here := server(t)
	const most = 16 << 20
	sparse := func(name string, change func(*elf.Header64, []elf.Prog64)) string {
		h := elf.Header64{Type: uint16(elf.ET_DYN), Version: 1, Phoff: 64, Phentsize: 56, Phnum: 100, Ehsize: 64}
		copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		headers := make([]elf.Prog64, h.Phnum)
		headers[0] = elf.Prog64{Type: uint32(elf.PT_LOAD), Filesz: 64 << 20}
		change(&h, headers)
		var out bytes.Buffer
		for _, part := range []any{h, headers, []elf.Dyn64{
			{Tag: int64(elf.DT_STRTAB), Val: 0}, {Tag: int64(elf.DT_STRSZ), Val: mostTexts}, {},
		}} {
			if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
				t.Fatal(err)
			}
		}
		path := m.write(name, out.Bytes())
		if err := os.Truncate(path, 64<<20); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dynamic := elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: 64 + 100*56, Filesz: 48}
	for name, change := range map[string]func(*elf.Header64, []elf.Prog64){
		"one dynamic section": func(_ *elf.Header64, p []elf.Prog64) { p[1] = dynamic },
		"many": func(_ *elf.Header64, p []elf.Prog64) {
			for n := range p[1:] {
				p[1+n] = dynamic
			}
		},
		"a large one": func(_ *elf.Header64, p []elf.Prog64) {
			p[1] = elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Filesz: 1 << 62}
		},
		"a long loader": func(_ *elf.Header64, p []elf.Prog64) {
			p[1] = elf.Prog64{Type: uint32(elf.PT_INTERP), Filesz: 1 << 62}
		},
		"many headers": func(h *elf.Header64, _ []elf.Prog64) { h.Phnum = 65535 },
		"far headers":  func(h *elf.Header64, _ []elf.Prog64) { h.Phoff = 1 << 63 },
	} {
		path := sparse("image/"+name, change)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = here.Missing(t.Context(), path, nil)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d MiB, want %d at most", name, took>>20, most>>20)
		}
	}
}
