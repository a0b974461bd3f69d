package imagedir_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
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
