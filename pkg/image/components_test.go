package image_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/image"
)

const oneComponent = `{"spdxVersion": "SPDX-2.3", "packages": [{"name": "left", "versionInfo": "1.0.0"}]}`

func TestAnSBOMIsPartOfTheContentAndTheSameFromAFileOrTheDirectory(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(dir, "garrison.yaml", "agent: a\nversion: 1.0.0\nkind: files\nos: linux\narch: amd64\n")
	write(dir, "hello", "hello\n")
	components := write(other, "components.json", oneComponent)
	build := func(o image.BuildOptions) (digest []byte, names int) {
		t.Helper()
		o.Dir, o.Out = dir, filepath.Join(other, "a.gimg")
		m, err := image.Build(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := image.Open(o.Out)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		all, has, err := image.Components(m.Blob, f.Chunk)
		if err != nil || f.Verify(t.Context()) != nil || has != (len(all) > 0) {
			t.Fatal(all, has, err)
		}
		return m.Blob.Digest, len(all)
	}
	bare, none := build(image.BuildOptions{})
	same, _ := build(image.BuildOptions{FindSBOM: true}) // nothing in it says what it is made of
	given, one := build(image.BuildOptions{SBOM: components})
	write(dir, "garrison-sbom.json", oneComponent)
	inside, _ := build(image.BuildOptions{})
	if none != 0 || one != 1 || !bytes.Equal(bare, same) || bytes.Equal(bare, given) || !bytes.Equal(given, inside) {
		t.Errorf("%d and %d components; digests %x, %x, %x, %x", none, one, bare, same, given, inside)
	}
	_, err := image.Build(t.Context(), image.BuildOptions{Dir: dir, Out: filepath.Join(other, "b"), SBOM: components})
	if fault.RefusalOf(err).GetCode() != code.BadSbom {
		t.Errorf("two SBOMs: %v", err)
	}
}
