package imagedir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

func TestALookIsRememberedForAsLongAsIsAskedForAndARemovalIsSeenAtOnce(t *testing.T) {
	root, s, i := staged(t)
	digest := i.Manifest.Blob.Digest
	if _, err := s.Whole(digest); err != nil {
		t.Fatal(err)
	}
	dir := root.Image(digest)
	if err := os.Chmod(filepath.Join(dir, "bin/agent"), 0o444); err != nil {
		t.Fatal(err)
	}
	if m, err := s.WholeLately(digest, time.Hour); err != nil || m.Version != "1.0.0" {
		t.Errorf("a look of just now was not remembered: %v, %v", m, err)
	}
	if _, err := s.WholeLately(digest, 0); err == nil {
		t.Error("an old look was believed")
	}
	if _, err := s.WholeLately(digest, time.Hour); err == nil {
		t.Error("the newer look was not remembered")
	}
	if err := imagedir.RemoveTree(dir); err != nil {
		t.Fatal(err)
	}
	if m, err := s.WholeLately(digest, time.Hour); err == nil || m.Digest != "" {
		t.Errorf("an image that is gone was found: %v, %v", m, err)
	}
}

// damaged returns an image with a changed file, and a fresh copy beside it.
func damaged(t *testing.T) (layout.Root, *imagedir.Images, imagetest.Image) {
	t.Helper()
	root, s, i := staged(t)
	file := filepath.Join(root.Image(i.Manifest.Blob.Digest), "bin/agent")
	if err := errors.Join(os.Chmod(file, 0o755), os.WriteFile(file, []byte("damaged"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if !s.Damaged(i.Manifest.Blob.Digest) || s.Prepared(i.Manifest.Blob.Digest) {
		t.Fatal("the damage is not seen")
	}
	if err := errors.Join(i.Store(root), s.Stage(t.Context(), i.Manifest, nil)); err != nil {
		t.Fatal(err)
	}
	if !s.Damaged(i.Manifest.Blob.Digest) || !s.Prepared(i.Manifest.Blob.Digest) {
		t.Fatal("the copy is not beside the damaged image")
	}
	return root, s, i
}

func TestAFreshCopyTakesThePlaceOfADamagedImage(t *testing.T) {
	for name, before := range map[string]func(place string) error{
		"in one step":       func(string) error { return nil },
		"with nothing left": func(place string) error { return imagedir.RemoveTree(place) },
	} {
		t.Run(name, func(t *testing.T) {
			root, s, i := damaged(t)
			digest := i.Manifest.Blob.Digest
			if err := before(root.Image(digest)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // as after a crash
				if err := s.Renew(digest); err != nil {
					t.Fatal(err)
				}
			}
			if m, err := s.WholeLately(digest, time.Hour); err != nil || m.Version != "1.0.0" {
				t.Errorf("the image is %v, %v", m, err)
			}
			if _, err := os.Lstat(root.FreshImage(digest)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something is beside it: %v", err)
			}
		})
	}
}

func TestADamagedImageStaysWhenThereIsNoWholeCopy(t *testing.T) {
	root, s, i := damaged(t)
	digest := i.Manifest.Blob.Digest
	if err := imagedir.RemoveTree(root.FreshImage(digest)); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(digest); err == nil || !s.Damaged(digest) {
		t.Errorf("%v, want an error and the image as it is", err)
	}
}

func TestCopiesThatNoRepairUsesAreSwept(t *testing.T) {
	for wanted, left := range map[bool]int{true: 2, false: 1} {
		root, s, _ := damaged(t)
		if err := s.SweepFresh(func([]byte) (bool, error) { return wanted, nil }); err != nil {
			t.Fatal(err)
		}
		if entries, err := os.ReadDir(root.Images()); len(entries) != left {
			t.Errorf("wanted %v: %d directories, %v; want %d", wanted, len(entries), err, left)
		}
	}
}
