package unpack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

var roomy = unpack.Limits{Entries: 10, Bytes: 1 << 20}

func entry(kind byte, name, target string, mode int64) imagetest.File {
	return imagetest.File{Header: tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: mode}}
}

func TestAnHonestArchiveIsUnpackedAsItIs(t *testing.T) {
	dir := t.TempDir()
	blob := imagetest.Pack(t,
		entry(tar.TypeDir, "./", "", 0o755),
		imagetest.Regular("bin/agent", 0o755, []byte("program")),
		imagetest.Regular("etc/config", 0o644, []byte("config")),
		entry(tar.TypeSymlink, "agent", "bin/agent", 0o777),
		entry(tar.TypeLink, "bin/again", "bin/agent", 0o755))
	if err := unpack.Unpack(context.Background(), bytes.NewReader(blob), dir, roomy); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"bin/agent": 0o555, "etc/config": 0o444, "bin/again": 0o555, "agent": 0o555,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info, err, want)
		}
	}
}

func file(name string) imagetest.File { return imagetest.Regular(name, 0o644, []byte("x")) }

// dishonest are archives that are refused, each with its code.
var dishonest = map[string]struct {
	code  string
	files []imagetest.File
}{
	"absolute":       {code.BadArchive, []imagetest.File{file("/etc/passwd")}},
	"dot dot":        {code.BadArchive, []imagetest.File{file("a/../../x")}},
	"dot dot within": {code.BadArchive, []imagetest.File{file("a/../x")}},
	"below a file":   {code.BadArchive, []imagetest.File{file("a"), file("a/b")}},
	"through a link": {
		code.BadArchive,
		[]imagetest.File{entry(tar.TypeDir, "d", "", 0o755), entry(tar.TypeSymlink, "l", "d", 0), file("l/x")},
	},
	"link to root": {code.LinkEscapes, []imagetest.File{entry(tar.TypeSymlink, "l", "/etc/passwd", 0)}},
	"link out":     {code.LinkEscapes, []imagetest.File{entry(tar.TypeSymlink, "l", "../x", 0)}},
	"link nowhere": {code.LinkEscapes, []imagetest.File{entry(tar.TypeSymlink, "l", "x", 0)}},
	"link loop": {
		code.LinkEscapes,
		[]imagetest.File{entry(tar.TypeSymlink, "l", "m", 0), entry(tar.TypeSymlink, "m", "l", 0)},
	},
	"link out by a link": {
		code.LinkEscapes,
		[]imagetest.File{
			entry(tar.TypeDir, "a/b", "", 0o755), entry(tar.TypeSymlink, "a/b/top", "../..", 0),
			entry(tar.TypeSymlink, "out", "a/b/top/..", 0),
		},
	},
	"hard link out": {code.BadArchive, []imagetest.File{entry(tar.TypeLink, "l", "../x", 0)}},
	"hard link to a link": {
		code.LinkEscapes,
		[]imagetest.File{file("x"), entry(tar.TypeSymlink, "l", "x", 0), entry(tar.TypeLink, "h", "l", 0)},
	},
	"device":           {code.SpecialFile, []imagetest.File{entry(tar.TypeChar, "null", "", 0o666)}},
	"block device":     {code.SpecialFile, []imagetest.File{entry(tar.TypeBlock, "sda", "", 0o666)}},
	"fifo":             {code.SpecialFile, []imagetest.File{entry(tar.TypeFifo, "pipe", "", 0o666)}},
	"setuid":           {code.BadArchive, []imagetest.File{imagetest.Regular("su", 0o4755, []byte("x"))}},
	"setgid directory": {code.BadArchive, []imagetest.File{entry(tar.TypeDir, "d", "", 0o2755)}},
	"twice":            {code.BadArchive, []imagetest.File{file("x"), file("./x")}},
	"directory over a link": {
		code.BadArchive,
		[]imagetest.File{file("x"), entry(tar.TypeSymlink, "l", "x", 0), entry(tar.TypeDir, "l", "", 0o755)},
	},
	"reserved":  {code.ReservedName, []imagetest.File{file(archive.Reserved)}},
	"not UTF-8": {code.BadName, []imagetest.File{file("a\xff")}},
	"new line":  {code.BadName, []imagetest.File{file("a\nb")}},
	"too many": {
		code.TooLarge,
		[]imagetest.File{
			file("1"), file("2"), file("3"), file("4"), file("5"), file("6"), file("7"), file("8"), file("9"),
			file("10"), file("11"),
		},
	},
	"too large": {
		code.TooLarge, []imagetest.File{imagetest.Regular("zeros", 0o644, make([]byte, 2<<20))},
	},
	"too large together": {
		code.TooLarge,
		[]imagetest.File{
			imagetest.Regular("1", 0o644, make([]byte, 700<<10)),
			imagetest.Regular("2", 0o644, make([]byte, 700<<10)),
		},
	},
}

func TestWhatADishonestArchiveHoldsIsRefusedWithItsCode(t *testing.T) {
	for name, c := range dishonest {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside := filepath.Join(dir, "x")
			in := filepath.Join(dir, "image")
			if err := os.Mkdir(in, 0o755); err != nil {
				t.Fatal(err)
			}
			err := unpack.Unpack(context.Background(), bytes.NewReader(imagetest.Pack(t, c.files...)), in, roomy)
			if code := fault.RefusalOf(err).GetCode(); code != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
			if strings.Contains(fmt.Sprint(err), "statat") {
				t.Errorf("%v: the kernel's words", err)
			}
			if _, err := os.Lstat(outside); err == nil {
				t.Error("something was made outside")
			}
		})
	}
}

func TestAnArchiveThatIsCutIsRefused(t *testing.T) {
	blob := imagetest.Pack(t, imagetest.Regular("x", 0o644, []byte(strings.Repeat("abc", 1000))))
	for _, n := range []int{0, 4, len(blob) / 2, len(blob) - 5} {
		err := unpack.Unpack(context.Background(), bytes.NewReader(blob[:n]), t.TempDir(), roomy)
		if err == nil && n > 0 {
			t.Errorf("%d of %d bytes were taken for an archive", n, len(blob))
		}
	}
}

func FuzzNothingIsEverMadeOutside(f *testing.F) {
	z, _ := zstd.NewWriter(nil)
	for _, files := range [][]imagetest.File{
		{imagetest.Regular("bin/agent", 0o755, []byte("x"))},
		{entry(tar.TypeSymlink, "l", "../x", 0)},
		{
			entry(tar.TypeDir, "d", "", 0o755), entry(tar.TypeSymlink, "d/l", "../..", 0),
			imagetest.Regular("d/l/x", 0o644, nil),
		},
	} {
		raw, err := zstd.NewReader(bytes.NewReader(imagetest.Pack(f, files...)))
		if err != nil {
			f.Fatal(err)
		}
		var tarred bytes.Buffer
		_, _ = raw.WriteTo(&tarred)
		f.Add(tarred.Bytes())
	}
	f.Fuzz(func(t *testing.T, tarred []byte) {
		dir := t.TempDir()
		in := filepath.Join(dir, "image")
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = unpack.Unpack(context.Background(), bytes.NewReader(z.EncodeAll(tarred, nil)), in,
			unpack.Limits{Entries: 20, Bytes: 1 << 16})
		if entries, _ := os.ReadDir(dir); len(entries) != 1 {
			t.Fatalf("beside the image there is %v", entries)
		}
		_ = filepath.WalkDir(in, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
				t.Fatalf("%s is %s", path, d.Type())
			}
			return nil
		})
	})
}
