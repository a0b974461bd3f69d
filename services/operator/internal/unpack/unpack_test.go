package unpack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/manifest"

	"github.com/garrison-fleet/garrison/services/operator/internal/unpack"
)

// entry is an entry of an archive; text is the target of a link.
type entry struct {
	name string
	kind byte
	text string
	mode int64
}

func reg(name, text string) entry { return entry{name, tar.TypeReg, text, 0o644} }

// tarOf returns a tar archive.
func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode}
		if e.kind == tar.TypeReg {
			h.Size = int64(len(e.text))
		} else {
			h.Linkname = e.text
		}
		err := w.WriteHeader(h)
		if err == nil && e.kind == tar.TypeReg {
			_, err = w.Write([]byte(e.text))
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

func gzipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func archive(data []byte) unpack.Archive {
	return unpack.Archive{Name: "a.tar", From: bytes.NewReader(data), Size: int64(len(data))}
}

// refused fails the test unless an archive is refused with a code and a text.
func refused(t *testing.T, a unpack.Archive, want, says string) {
	t.Helper()
	_, err := a.Scan(t.Context())
	if have := fault.RefusalOf(err).GetCode(); have != want || !strings.Contains(err.Error(), says) ||
		!strings.HasPrefix(fault.RefusalOf(err).GetMessage(), "a.tar") {
		t.Errorf("%v; want %s that says %q", err, want, says)
	}
}

func TestAHostileEntryIsRefusedByName(t *testing.T) {
	fine := reg("f", "x")
	for _, c := range []struct {
		want, says string
		entries    []entry
	}{
		{code.BadArchive, `"../evil"`, []entry{reg("../evil", "x")}},
		{code.BadArchive, `"/etc/evil"`, []entry{reg("/etc/evil", "x")}},
		{code.BadArchive, `"a/../../evil"`, []entry{reg("a/../../evil", "x")}},
		{code.BadName, "control character", []entry{reg("a\nb", "x")}},
		{code.ReservedName, ".garrison-image", []entry{reg(".garrison-image", "x")}},
		{code.LinkEscapes, `"up"`, []entry{{"up", tar.TypeSymlink, "../..", 0o777}}},
		{code.LinkEscapes, `"l"`, []entry{{"l", tar.TypeSymlink, "/etc/passwd", 0o777}}},
		{code.LinkEscapes, "which is not in the image", []entry{{"l", tar.TypeSymlink, "none", 0o777}}},
		{code.LinkEscapes, "hard link", []entry{{"h", tar.TypeLink, "none", 0o644}}},
		{code.BadArchive, `"out/evil" lies below "out"`, []entry{
			{"d/", tar.TypeDir, "", 0o755}, {"out", tar.TypeSymlink, "d", 0o777}, reg("out/evil", "x"),
		}},
		{code.BadArchive, `two entries have the name "f"`, []entry{fine, reg("./f", "y")}},
		{code.BadArchive, `two entries have the name "f"`, []entry{fine, {"f", tar.TypeSymlink, "f2", 0o777}}},
		{code.SpecialFile, `"dev"`, []entry{{"dev", tar.TypeChar, "", 0o644}}},
		{code.SpecialFile, `"disk"`, []entry{{"disk", tar.TypeBlock, "", 0o644}}},
		{code.SpecialFile, `"pipe"`, []entry{{"pipe", tar.TypeFifo, "", 0o644}}},
		{code.BadArchive, `"su" has the setuid`, []entry{{"su", tar.TypeReg, "x", 0o4755}}},
		{code.BadArchive, `"wall" has the setuid or setgid`, []entry{{"wall", tar.TypeReg, "x", 0o2755}}},
		{code.BadArchive, "it is empty", nil},
	} {
		refused(t, archive(gzipped(t, tarOf(t, c.entries...))), c.want, c.says)
	}
}

func TestATruncatedOrChangedArchiveIsRefused(t *testing.T) {
	whole := tarOf(t, reg("a", strings.Repeat("some text ", 200)), reg("b", "more"))
	var z, x bytes.Buffer
	zw, _ := zstd.NewWriter(&z)
	xw, err := xz.NewWriter(&x)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{zw, xw} {
		if _, err := w.Write(whole); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range [][]byte{gzipped(t, whole), z.Bytes(), x.Bytes()} {
		if _, err := archive(data).Scan(t.Context()); err != nil {
			t.Error(err)
		}
		for _, n := range []int{3, 9, len(data) / 2, len(data) - 9, len(data) - 1} {
			refused(t, archive(data[:n]), code.BadArchive, "truncated, damaged or no archive")
		}
		changed := bytes.Clone(data)
		changed[len(changed)/2] ^= 0x55
		refused(t, archive(changed), code.BadArchive, "a.tar")
	}
	refused(t, archive(whole[:700]), code.BadArchive, "truncated")
}

// zeros compress a thousandfold and more.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestABombIsRefused(t *testing.T) {
	bomb := func(write func(w *tar.Writer) error) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(z)
		if err := errors.Join(write(w), w.Close(), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	const size = 200 << 20
	one := bomb(func(w *tar.Writer) error {
		err := w.WriteHeader(&tar.Header{Name: "zero", Size: size, Mode: 0o644})
		if err == nil {
			_, err = io.CopyN(w, zeros{}, size)
		}
		return err
	})
	refused(t, archive(one), code.TooLarge, "packed bytes become more than 67108864")
	again := bomb(func(w *tar.Writer) error {
		const part = 1 << 20
		err := w.WriteHeader(&tar.Header{Name: "part", Size: part, Mode: 0o644})
		if err == nil {
			_, err = io.CopyN(w, zeros{}, part)
		}
		for n := 0; n < 100 && err == nil; n++ {
			err = w.WriteHeader(&tar.Header{Name: "l" + strconv.Itoa(n), Typeflag: tar.TypeLink, Linkname: "part"})
		}
		return err
	})
	refused(t, archive(again), code.TooLarge, "packed bytes become more than 67108864")
	behind := gzipped(t, append(tarOf(t, reg("a", "x")), make([]byte, size)...))
	refused(t, archive(behind), code.TooLarge, "packed bytes become more than 67108864")
	var many bytes.Buffer
	z, err := zstd.NewWriter(&many, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	w := cpio.NewWriter(z) // its headers are shorter
	for n := 0; n <= manifest.MaxEntries && err == nil; n++ {
		err = w.WriteHeader(&cpio.Header{Name: strconv.Itoa(n * 7919), Mode: cpio.TypeDir | 0o755})
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	a := archive(many.Bytes())
	a.CPIO = true
	refused(t, a, code.TooLarge, "more than 1000000 entries")
	xzBomb := []byte{0xfd, '7', 'z', 'X', 'Z', 0, 0, 4, 0xe6, 0xd6, 0xb4, 0x46, 2, 0, 0x21, 1, 40, 0, 0, 0, 0, 0, 0, 0}
	refused(t, archive(xzBomb), code.TooLarge, "dictionary has 4294967295 bytes")
}

func TestAnArchiveIsUnpackedWithNamesContentsAndTheExecutableBit(t *testing.T) {
	data := tarOf(t, entry{"./", tar.TypeDir, "", 0o700}, entry{"./top/d/", tar.TypeDir, "", 0o700},
		entry{"./top/d/run", tar.TypeReg, "r", 0o710}, entry{"./top/also", tar.TypeLink, "./top/d/run", 0o710},
		reg("./top/f", "text"), entry{"./top/l", tar.TypeSymlink, "d/run", 0o777})
	content, err := archive(data).Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if top := content.Top(); top != "top" {
		t.Errorf("the top is %q", top)
	}
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	if err := content.Extract(t.Context(), root, content.Top()); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"d/run": 0o755, "also": 0o755, "f": 0o644, "l": 0o755} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v; want %v", name, info, err, mode)
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "l")); err != nil || to != "d/run" {
		t.Errorf("l leads to %q, %v", to, err)
	}
}

func TestALinkOfAPackageThatLeadsElsewhereIsLeftOut(t *testing.T) {
	a := archive(tarOf(t, reg("usr/lib/x", "x"), entry{"etc/x", tar.TypeSymlink, "/usr/lib/x", 0o777},
		entry{"etc/other", tar.TypeSymlink, "/etc/alternatives/x", 0o777}))
	a.Package = true
	content, err := a.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []unpack.LeftOut{{"etc/other",
		`the symbolic link "etc/other" leads to "../etc/alternatives/x", which is not in the image`}}
	if diff := cmp.Diff(want, content.LeftOut); diff != "" {
		t.Error(diff)
	}
	a = archive(tarOf(t, reg("f", "x"), entry{"etc/up", tar.TypeSymlink, "../../etc/shadow", 0o777}))
	a.Package = true
	refused(t, a, code.LinkEscapes, `"etc/up"`)
}

func TestACPIOArchiveKeepsTheNamesOfOneFile(t *testing.T) {
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for _, h := range []*cpio.Header{
		{Name: "./a", Mode: cpio.TypeReg | 0o755, Links: 2, Inode: 7},
		{Name: "./b", Mode: cpio.TypeReg | 0o755, Links: 2, Inode: 7, Size: 4},
		{Name: "./e", Mode: cpio.TypeReg | 0o644, Links: 2, Inode: 8},
		{Name: "./l", Mode: cpio.TypeSymlink | 0o777, Size: 1},
	} {
		text := "text"[:h.Size]
		if h.Mode&^0o7777 == cpio.TypeSymlink {
			text = "b"
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := archive(b.Bytes())
	a.CPIO, a.Package = true, true
	content, err := a.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "e"}, content.Sorted()); diff != "" || content.Files["a"].Size != 4 {
		t.Errorf("%v %s", content.Files, diff)
	}
	if text, err := content.ReadFile(t.Context(), "b", 10); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	a = archive(b.Bytes()[:b.Len()/2])
	a.CPIO = true
	refused(t, a, code.BadArchive, "truncated")
}

func TestAScanStopsWhenItsContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := archive(tarOf(t, reg("a", "x"))).Scan(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want %v", err, context.Canceled)
	}
}
