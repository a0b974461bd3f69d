// Package loader finds what the dynamic loader of this server would not find for a program, without starting it.
//
// Guarantees:
//
//  1. Missing names nothing that the loader finds. It looks in more places than the loader does, and names no library
//     where it cannot tell: for a search path that is relative or has a token other than $ORIGIN, for an environment
//     that loads something first, for an object that cannot be read, and where the loader of musl is, which is a
//     library itself.
//  2. An image cannot make it read or keep much, or wait: only regular files are opened, and sizes and numbers have
//     bounds.
package loader

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/regular"
)

// The most that one search reads, looks for and looks in. Beyond, it cannot tell.
const (
	mostObjects = 300
	mostDirs    = 128
)

// System is where libraries lie on a server.
type System struct {
	Cache string   // the loader's cache
	Dirs  []string // patterns of the directories that are searched without it
	Musl  string   // a pattern of the loader of musl, which may stand in for that of glibc
}

// Here is this server.
var Here = System{
	Cache: "/etc/ld.so.cache",
	Dirs: []string{
		"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib/*-linux-*", "/usr/lib/*-linux-*", "/lib32",
		"/usr/lib32",
	},
	Musl: "/lib/ld-musl-*",
}

// search is the search for what one program needs.
type search struct {
	System
	cache   []byte
	dirs    []string // of the environment, of each object that was read, and of the server
	unknown bool     // some place or object is not known
	seen    map[string]bool
	open    []string // objects that are still to be read
	needed  []string // names that no object was found for yet
}

// Missing returns the interpreter or the loader that a program names and that does not exist, or else the names of the
// shared libraries that are in no place where the loader looks, for a program with an environment. A file that is no
// program has none. The error is that of ctx.
func (s System) Missing(ctx context.Context, program string, env []string) ([]string, error) {
	if line, _, ok := strings.Cut(string(head(program)), "\n"); ok && strings.HasPrefix(line, "#!") {
		return lacks(strings.Fields(line[2:])), nil
	}
	o, err := readObject(program)
	if err != nil || o.loader == "" {
		return nil, nil // the kernel or the loader tells what is wrong with it
	}
	if missing := lacks([]string{o.loader}); missing != nil {
		return missing, nil
	}
	if musl, _ := filepath.Glob(s.Musl); len(musl) > 0 || strings.HasPrefix(filepath.Base(o.loader), "ld-musl-") {
		return nil, nil
	}
	x := &search{System: s, seen: map[string]bool{}}
	x.cache, _ = os.ReadFile(s.Cache) // a server with another loader has none
	x.addDir(filepath.Dir(o.loader))
	x.addEnvironment(env)
	for _, pattern := range s.Dirs {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		for _, dir := range found {
			x.addDir(dir)
		}
	}
	if err := x.follow(ctx, program); err != nil {
		return nil, err
	}
	return x.missing(), nil
}

// addEnvironment adds what the environment tells the loader.
func (x *search) addEnvironment(env []string) {
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "LD_LIBRARY_PATH":
			x.addPath(strings.ReplaceAll(value, ";", ":"), "")
		case "LD_PRELOAD", "LD_AUDIT", "NIX_LD", "NIX_LD_LIBRARY_PATH":
			x.unknown = true
		}
	}
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
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	first := make([]byte, 256)
	n, _ := io.ReadFull(f, first) // it may be shorter
	return first[:n]
}

// follow reads a program, and the libraries that are found for it.
func (x *search) follow(ctx context.Context, program string) error {
	x.open = []string{program}
	for len(x.open) > 0 && len(x.seen) < mostObjects && !x.unknown {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		path := x.open[0]
		x.open = x.open[1:]
		if !x.seen[path] {
			x.seen[path] = true
			x.read(path)
		}
	}
	return nil
}

// read notes what an object needs and where it says that this lies.
func (x *search) read(path string) {
	o, err := readObject(path)
	if err != nil {
		x.unknown = true
		return
	}
	linked, _ := filepath.EvalSymlinks(path) // it was opened
	for _, p := range o.paths {
		x.addPath(p, filepath.Dir(path))
		x.addPath(p, filepath.Dir(linked))
	}
	for _, name := range o.needs {
		if !slices.Contains(x.needed, name) {
			x.needed = append(x.needed, name)
		}
	}
	x.needed = slices.DeleteFunc(x.needed, x.find) // also those of objects before: more places are known now
	x.unknown = x.unknown || len(x.needed) > mostNeeds
}

// addPath adds the directories of a search path of an object in a directory.
func (x *search) addPath(path, origin string) {
	for dir := range strings.SplitSeq(path, ":") {
		if x.unknown {
			return
		}
		dir = strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin).Replace(dir)
		if !filepath.IsAbs(dir) || strings.Contains(dir, "$") {
			x.unknown = true
			return
		}
		x.addDir(dir)
	}
}

// addDir adds a directory, and those in it for processors with certain abilities.
func (x *search) addDir(dir string) {
	abilities, _ := filepath.Glob(filepath.Join(dir, "glibc-hwcaps", "*")) // an unusual name has none
	for _, d := range append([]string{dir}, abilities...) {
		switch {
		case slices.Contains(x.dirs, d):
		case len(x.dirs) == mostDirs:
			x.unknown = true
			return
		default:
			x.dirs = append(x.dirs, d)
		}
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
