// Package loader finds what the dynamic loader of this server would not find for a program, without starting it.
//
// Guarantee: Missing names nothing that the loader finds. It looks in more places than the loader does, and names no
// library where it cannot tell: for a search path that is relative or has a token other than $ORIGIN, and for the
// loader of musl, which is a library itself.
package loader

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostObjects is how many programs and libraries one search reads.
const mostObjects = 1000

// System is where libraries lie on a server.
type System struct {
	Cache string   // the loader's cache
	Dirs  []string // patterns of the directories that are searched without it
}

// Here is this server.
var Here = System{
	Cache: "/etc/ld.so.cache",
	Dirs: []string{
		"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib32",
		"/usr/lib32",
	},
}

// search is the search for what one program needs.
type search struct {
	System
	cache   []byte
	dirs    []string // of the environment, of each object that was read, and of the server
	unknown bool     // some directory is not known
	seen    map[string]bool
	open    []string // objects that are still to be read
	needed  []string // names that no object was found for yet
}

// Missing returns the interpreter or the loader that a program names and that does not exist, or else the names of the
// shared libraries that are in no place where the loader looks, for a program with an environment. A file that is no
// program has none.
func (s System) Missing(program string, env []string) []string {
	if line, _, ok := strings.Cut(string(head(program)), "\n"); ok && strings.HasPrefix(line, "#!") {
		return lacks(strings.Fields(line[2:]))
	}
	f, err := elf.Open(program)
	if err != nil {
		return nil
	}
	loader := interpreter(f)
	_ = f.Close()
	if missing := lacks(loader); missing != nil {
		return missing
	}
	if loader == nil || strings.HasPrefix(filepath.Base(loader[0]), "ld-musl-") {
		return nil
	}
	x := &search{System: s, seen: map[string]bool{}, dirs: []string{filepath.Dir(loader[0])}}
	x.cache, _ = os.ReadFile(s.Cache) // a server with another loader has none
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "LD_LIBRARY_PATH="); ok {
			x.addPath(path, "")
		}
	}
	for _, pattern := range s.Dirs {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		x.dirs = append(x.dirs, found...)
	}
	x.follow(program)
	return x.missing()
}

// lacks returns the first of some words, a path, if no file is there.
func lacks(words []string) []string {
	if len(words) > 0 && filepath.IsAbs(words[0]) {
		if _, err := os.Stat(words[0]); os.IsNotExist(err) {
			return words[:1]
		}
	}
	return nil
}

// head returns the first bytes of a file.
func head(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	first := make([]byte, 256)
	n, _ := f.Read(first)
	return first[:n]
}

// interpreter returns the path of the loader of a program; nil when it is linked statically.
func interpreter(f *elf.File) []string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			path := make([]byte, p.Filesz)
			if _, err := p.ReadAt(path, 0); err == nil {
				return []string{string(bytes.TrimRight(path, "\x00"))}
			}
		}
	}
	return nil
}

// follow reads a program, and the libraries that are found for it.
func (x *search) follow(program string) {
	x.open = []string{program}
	for len(x.open) > 0 && len(x.seen) < mostObjects {
		path := x.open[0]
		x.open = x.open[1:]
		if x.seen[path] {
			continue
		}
		x.seen[path] = true
		x.read(path)
	}
}

// read notes what an object needs and where it says that this lies.
func (x *search) read(path string) {
	f, err := elf.Open(path)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	linked, _ := filepath.EvalSymlinks(path) // it was opened
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, _ := f.DynString(tag)
		for _, p := range paths {
			x.addPath(p, filepath.Dir(path))
			x.addPath(p, filepath.Dir(linked))
		}
	}
	names, _ := f.ImportedLibraries()
	x.needed = append(x.needed, names...)
	x.needed = slices.DeleteFunc(x.needed, x.find) // also those of objects before: more places are known now
}

// addPath adds the directories of a search path of an object in a directory.
func (x *search) addPath(path, origin string) {
	for dir := range strings.SplitSeq(path, ":") {
		dir = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir)
		if !filepath.IsAbs(dir) || strings.Contains(dir, "$") {
			x.unknown = true
			continue
		}
		x.dirs = append(x.dirs, dir)
	}
}

// find reports whether a library is there, and has it read as well.
func (x *search) find(name string) bool {
	if strings.Contains(name, "/") {
		return true // the loader opens it as it is
	}
	for _, dir := range x.dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			x.open = append(x.open, path)
			return true
		}
	}
	return x.cached(name)
}

// cached reports whether the loader's cache names a library. Its texts end with a zero byte; the name is one of them,
// or the end of a path.
func (x *search) cached(name string) bool {
	text := []byte(name + "\x00")
	for rest := x.cache; ; {
		at := bytes.Index(rest, text)
		if at <= 0 {
			return false
		}
		if rest[at-1] == 0 || rest[at-1] == '/' {
			return true
		}
		rest = rest[at+1:]
	}
}

// missing returns the names that nothing was found for; none where a place is not known.
func (x *search) missing() []string {
	if x.unknown || len(x.open) > 0 {
		return nil
	}
	slices.Sort(x.needed)
	return slices.Compact(x.needed)
}
