package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
)

// read opens and verifies the file that has these bytes.
func read(t testing.TB, data []byte) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.gimg")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := image.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Verify(t.Context())
}

func TestAFileCutAnywhereIsRefusedAsTruncated(t *testing.T) {
	t.Parallel()
	m, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	whole, _ := os.ReadFile(path)
	end := 2*512 + 1024 // past the manifest and both headers
	for _, n := range []int{0, 1, 511, 512, 700, end, len(whole) / 2, int(m.Blob.SizeBytes)} {
		wantCode(t, read(t, whole[:n]), code.NotAnImage)
	}
}

func TestAnAlteredByteOfTheContentIsRefusedAsAWrongDigest(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	whole, _ := os.ReadFile(path)
	for _, n := range []int{len(whole) / 4, len(whole) / 2, len(whole) - 4096} {
		data := append([]byte{}, whole...)
		data[n] ^= 1
		wantCode(t, read(t, data), code.WrongDigest)
	}
}

func TestAnAlteredVersionInTheManifestIsRefused(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	data, _ := os.ReadFile(path)
	for i := range data[:4096] {
		if string(data[i:i+6]) == "1.25.4" {
			data[i] = '9'
		}
	}
	wantCode(t, read(t, data), code.WrongID)
}

func TestSomethingElseIsRefusedAsNotAnImage(t *testing.T) {
	t.Parallel()
	other := tree(t, map[string]entry{"x": {text: noise(5000)}})
	data, _ := os.ReadFile(filepath.Join(other, "x"))
	wantCode(t, read(t, data), code.NotAnImage)
	for _, short := range []string{"hello\n", "m\n", "manifest.jso_"} {
		wantCode(t, read(t, []byte(short)), code.NotAnImage)
	}
	_, err := image.Open(other)
	wantCode(t, err, code.NotAnImage)
}

func TestARefusalNamesTheFileAndWhatToTry(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	whole, _ := os.ReadFile(path)
	for _, content := range [][]byte{whole[:700], []byte("hello\n")} {
		path := filepath.Join(t.TempDir(), "a.gimg")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := image.Open(path)
		if r := fault.RefusalOf(err); !strings.HasPrefix(r.GetMessage(), path+": ") || r.GetTry() == "" {
			t.Errorf("%v", r)
		}
	}
}

func TestAChunkThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	_, path := build(t, image.BuildOptions{Dir: agentTree(t)})
	f := open(t, path)
	for _, n := range []int{-1, f.Chunks()} {
		_, err := f.Chunk(n)
		wantCode(t, err, code.NoSuchChunk)
	}
}

// FuzzOpen: whatever a file holds, it is refused or it is exactly what its manifest says.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	for name, text := range map[string]string{"garrison.yaml": "agent: a\nversion: 1.0.0\nkind: files\nos: " +
		"linux\narch: amd64\n", "x": "y"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	out := filepath.Join(f.TempDir(), "x.gimg")
	if _, err := image.Build(f.Context(), image.BuildOptions{Dir: dir, Out: out}); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(out)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("not a tar archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := image.ReadBytes(t.Context(), data); err != nil && codeOf(err) == "" {
			t.Fatalf("not a refusal: %v", err)
		}
	})
}

func TestAnImageFileWithoutANumberIsRead(t *testing.T) {
	t.Parallel()
	f, err := image.Open(filepath.Join("testdata", "format-0.gimg"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if m := f.Manifest(); m.Agent != "beacon" || m.Version != "1.0.0" {
		t.Errorf("it is %s %s", m.Agent, m.Version)
	}
}

func TestANewerImageFileIsRefusedByItsNumber(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile(filepath.Join("testdata", "format-0.gimg"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ uname, gname, want string }{
		"this one":           {"format-1", "floor-1", ""},
		"newer, for readers": {"format-9", "floor-1", ""},
		"newer":              {"format-9", "floor-8", "has format 9, which needs a program that knows format 8"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.gimg")
			if err := os.WriteFile(path, renumbered(t, old, c.uname, c.gname), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := image.Open(path)
			if err == nil {
				_ = f.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// renumbered writes an image file's entries again with names in the first header.
func renumbered(t *testing.T, old []byte, uname, gname string) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(old)), tar.NewWriter(&out)
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if out.Len() == 0 {
			h.Uname, h.Gname = uname, gname
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
