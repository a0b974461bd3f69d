package packages_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/packages"
)

// files are the contents of a package by name. A name below bin, sbin or init.d is executable.
type files map[string]string

func modeOf(name string) int64 {
	if strings.Contains(name, "bin/") || strings.Contains(name, "init.d/") {
		return 0o755
	}
	return 0o644
}

// tarOf returns a tar archive of files, each name behind a prefix.
func tarOf(t *testing.T, prefix string, all files) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := w.WriteHeader(&tar.Header{Name: prefix + name, Mode: modeOf(name), Size: int64(len(all[name]))})
		if err == nil {
			_, err = io.WriteString(w, all[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packed returns bytes behind xz or zstd.
func packed(t *testing.T, data []byte, with string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	if with == "xz" {
		w, err = xz.NewWriter(&b)
	} else {
		w, err = zstd.NewWriter(&b)
	}
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// member is a file of an ar archive.
type member struct {
	name string
	data []byte
}

func ar(members ...member) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for _, m := range members {
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m.name, 0, 0, 0, "100644", len(m.data), m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// deb returns a Debian package.
func deb(t *testing.T, control files, all files) []byte {
	t.Helper()
	return ar(member{"debian-binary", []byte("2.0\n")},
		member{"control.tar.xz", packed(t, tarOf(t, "./", control), "xz")},
		member{"data.tar.zst", packed(t, tarOf(t, "./", all), "zstd")})
}

// value is a value of an RPM header: a text, a list of texts or a list of numbers.
type value struct {
	tag uint32
	of  any
}

func rpmHeader(values ...value) []byte {
	var index, store bytes.Buffer
	put := func(b *bytes.Buffer, n ...uint32) { _ = binary.Write(b, binary.BigEndian, n) }
	for _, v := range values {
		switch of := v.of.(type) {
		case string:
			put(&index, v.tag, 6, uint32(store.Len()), 1)
			store.WriteString(of + "\x00")
		case []string:
			put(&index, v.tag, 8, uint32(store.Len()), uint32(len(of)))
			store.WriteString(strings.Join(of, "\x00") + "\x00")
		case []uint32:
			for store.Len()%4 != 0 {
				store.WriteByte(0)
			}
			put(&index, v.tag, 4, uint32(store.Len()), uint32(len(of)))
			put(&store, of...)
		}
	}
	b := bytes.NewBufferString("\x8e\xad\xe8\x01\x00\x00\x00\x00")
	put(b, uint32(len(values)), uint32(store.Len()))
	b.Write(index.Bytes())
	b.Write(store.Bytes())
	return b.Bytes()
}

// rpm returns an RPM package with a header of these values.
func rpm(t *testing.T, all files, values ...value) []byte {
	t.Helper()
	var payload bytes.Buffer
	w := cpio.NewWriter(&payload)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		err := w.WriteHeader(&cpio.Header{
			Name: "./" + name, Mode: cpio.TypeReg | cpio.FileMode(modeOf(name)), Size: int64(len(all[name])), Links: 1,
		})
		if err == nil {
			_, err = io.WriteString(w, all[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b := bytes.NewBuffer(append([]byte("\xed\xab\xee\xdb"), make([]byte, 92)...))
	b.Write(rpmHeader(value{1000, "signature"}))
	for b.Len()%8 != 0 {
		b.WriteByte(0)
	}
	b.Write(rpmHeader(values...))
	b.Write(packed(t, payload.Bytes(), "zstd"))
	return b.Bytes()
}

// written returns options that convert a file of these bytes.
func written(t *testing.T, name string, data []byte) packages.Options {
	t.Helper()
	dir := t.TempDir()
	o := packages.Options{
		File: filepath.Join(dir, name), Build: image.BuildOptions{Out: filepath.Join(dir, "out.gimg")},
	}
	if err := os.WriteFile(o.File, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return o
}

// converted converts a file, and returns the manifest and the notes, a line each.
func converted(t *testing.T, o packages.Options) (*imagev1.Manifest, string) {
	t.Helper()
	r, err := packages.Convert(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(o.Build.Out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := f.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	var notes strings.Builder
	for _, n := range r.Notes {
		fmt.Fprintf(&notes, "%s: %s: %s\n", n.Code, n.What, n.Why)
	}
	return r.Image, notes.String()
}

// refused fails the test unless a file is refused with a code and a text, and nothing is written.
func refused(t *testing.T, o packages.Options, want, says string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	_, err := packages.Convert(t.Context(), o)
	if fault.RefusalOf(err).GetCode() != want || !strings.Contains(err.Error(), says) {
		t.Errorf("%v; want %s that says %q", err, want, says)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(o.Build.Out); err == nil {
		t.Errorf("%q: an image was written", says)
	}
}

// lacks fails the test for each line that notes do not have.
func lacks(t *testing.T, notes string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(notes, w) {
			t.Errorf("the notes lack %q:\n%s", w, notes)
		}
	}
}
