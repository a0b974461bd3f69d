package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/image"
)

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
