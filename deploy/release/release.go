// Package release makes a release of Garrison: programs for two architectures, deb and rpm packages, archives, a bill
// of materials of each program, checksums, and a signature.
//
//	err := release.Make(ctx, release.Options{Root: ".", Out: "bin/release", Version: "1.2.3", …})
//	err = release.Verify("bin/release/1.2.3", keys)
//
// Guarantees:
//
//  1. The same commit, built by the same Go and with the same keys, makes the same bytes, whatever the machine, its
//     path, its clock, its zone and its umask are.
//  2. A release of a tree with changes that are not committed is refused, unless it is a local build, whose version
//     carries that and precedes the version that it names.
//  3. A release appears whole or not at all.
//  4. A signature never expires, and Verify needs no network and no clock.
//
// What the scripts of the packages do, and never do, is in deploy/docs/packages.md.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// Options are what a release is made of.
type Options struct {
	Root    string   // of the source tree
	Out     string   // the directory below which the release appears, under its version
	Version string   // such as 1.2.3
	Local   bool     // a build to try: of any tree, with a version that carries it
	Archs   []string // of Go; default: amd64 and arm64
	Keys    []string // the public halves that every package carries
	Seed    []byte   // the secret half of one of them; nil leaves the release unsigned
	Log     io.Writer
}

// maker makes one release.
type maker struct {
	Options
	tree  tree
	stage string // holds what the packages are made of
	out   string
}

// Make makes a release, and returns its directory. An error leaves nothing behind.
func Make(ctx context.Context, o Options) (dir string, err error) {
	if len(o.Archs) == 0 {
		o.Archs = []string{"amd64", "arm64"}
	}
	if err := o.check(); err != nil {
		return "", err
	}
	m := maker{Options: o}
	if m.tree, err = readTree(ctx, o.Root); err != nil {
		return "", err
	}
	if m.Version, err = m.tree.version(o); err != nil {
		return "", err
	}
	final := filepath.Join(o.Out, m.Version)
	if _, err := os.Lstat(final); err == nil {
		return "", fmt.Errorf("%s exists, and a release is never overwritten; delete it first", final)
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(o.Out, ".release-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m.stage, m.out = filepath.Join(work, "stage"), filepath.Join(work, "out")
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return "", err
	}
	if err := m.fill(ctx); err != nil {
		return "", err
	}
	return final, os.Rename(m.out, final)
}

func (m *maker) fill(ctx context.Context) error {
	for _, arch := range m.Archs {
		m.logf("build the programs for %s", arch)
		if err := m.build(ctx, arch); err != nil {
			return err
		}
	}
	if err := m.document(ctx); err != nil {
		return err
	}
	if now, err := readTree(ctx, m.Root); err != nil || !reflect.DeepEqual(now, m.tree) {
		return errors.Join(errors.New("the source tree changed while it was built; build it again"), err)
	}
	for _, arch := range m.Archs {
		m.logf("package them for %s", arch)
		for _, p := range packages {
			if err := m.pack(p, arch); err != nil {
				return fmt.Errorf("package %s for %s: %w", p.name, arch, err)
			}
		}
		if err := m.bills(arch); err != nil {
			return err
		}
	}
	return m.seal()
}

func (m *maker) logf(format string, args ...any) {
	fmt.Fprintf(cmp.Or[io.Writer](m.Log, io.Discard), format+"\n", args...)
}

// at is the time of everything in the release: that of the commit.
func (m *maker) at() time.Time { return m.tree.committed }
