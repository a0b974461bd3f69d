package source

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/image"
	sourcev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/source/v1"
)

// open opens the directory of a site to publish it.
func (s *site) open(t *testing.T) (*webRoot, error) {
	t.Helper()
	w, err := openWebRoot(s.dir, s.seed, &sourcev1.Index{})
	if err == nil {
		t.Cleanup(w.close)
	}
	return w, err
}

func mustOpen(t *testing.T, s *site) *webRoot {
	t.Helper()
	w, err := s.open(t)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func isThere(path string) bool { _, err := os.Lstat(path); return err == nil }

func TestAnIndexThatAnotherWroteIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s, other := newSite(t), newSite(t)
	s.seed = other.seed
	_, err := s.open(t)
	wantCode(t, err, code.BadSource, s.dir+" has files, and no index that this key signed")
}

func TestADirectoryWithFilesAndWithoutAnIndexIsNotTouched(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if err := os.Remove(filepath.Join(s.dir, indexName)); err != nil {
		t.Fatal(err)
	}
	_, err := s.open(t)
	wantCode(t, err, code.BadSource, "has files, and no index")
	if !isThere(filepath.Join(s.dir, fileName(s.index.Images[0]))) {
		t.Error("the files of somebody else are gone")
	}
}

func TestAnEmptyDirectoryIsKnownAfterAnInterruptedRun(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.dir = filepath.Join(t.TempDir(), "new")
	w := mustOpen(t, s)
	left, err := w.create(imagesDir, func(*os.File) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if mustOpen(t, s); isThere(filepath.Join(s.dir, left)) {
		t.Errorf("%s is left", left)
	}
}

func TestAKeptFileIsListedOnlyWithTheContentAndTheManifestOfBefore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	l, path := s.index.Images[0], filepath.Join(s.dir, fileName(s.index.Images[0]))
	f, err := image.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m := f.Manifest()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	w := mustOpen(t, s)
	if !w.holds(l, m) {
		t.Error("the file as published is not taken")
	}
	m.Description = "another"
	if w.holds(l, m) {
		t.Error("a file with another manifest than the catalog's is taken")
	}
	m.Description = ""
	s.file[len(s.file)-1]++
	if s.write(t); w.holds(l, m) {
		t.Error("a file of the same size with other content is taken")
	}
}

func TestOnlyFilesThatAnEarlierIndexOfTheKeyListedAreDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own := filepath.Join(s.dir, fileName(s.index.Images[0]))
	digest := sha256.Sum256([]byte("x"))
	foreign := put(t, filepath.Join(s.dir, imagesDir, hex.EncodeToString(digest[:])+image.Extension), "x")
	for n, want := range []bool{true, false} { // the index after its own keeps it
		if w := mustOpen(t, s); isThere(own) != want {
			t.Errorf("run %d: the old image is there: %v, want %v", n, !want, want)
		} else if err := w.publish(&sourcev1.Index{}); err != nil {
			t.Fatal(err)
		}
	}
	if !isThere(foreign) {
		t.Error("a file that no index listed is gone")
	}
}

func TestALinkInTheWebRootLeadsNoWriteOut(t *testing.T) {
	t.Parallel()
	s, outside := newSite(t), t.TempDir()
	victim := put(t, filepath.Join(outside, "victim"), "as it was")
	for _, name := range []string{beforeName, "." + indexName} {
		if err := os.Symlink(victim, filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := mustOpen(t, s).publish(&sourcev1.Index{}); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(victim); err != nil || string(have) != "as it was" {
		t.Errorf("outside the web root: %q, %v", have, err)
	}
	images := filepath.Join(s.dir, imagesDir)
	if err := os.Rename(images, images+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, images); err != nil {
		t.Fatal(err)
	}
	if _, err := s.open(t); err == nil {
		t.Error("a directory of images outside the web root is taken")
	}
}
