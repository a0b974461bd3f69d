package imagedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// change replaces a file's content in place by another one of the same size, and keeps its mode and its time.
func change(t *testing.T, path, content string) {
	t.Helper()
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if was.Size() != int64(len(content)) {
		t.Fatalf("the content has %d bytes; want %d", len(content), was.Size())
	}
	err = errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, []byte(content), 0o644),
		os.Chmod(path, was.Mode()), os.Chtimes(path, was.ModTime(), was.ModTime()))
	if err != nil {
		t.Fatal(err)
	}
}

func TestAContentThatChangedWithItsTimeKeptIsFoundUntilAnotherCopyIsThere(t *testing.T) {
	root, s, i := staged(t)
	digest := i.Manifest.Blob.Digest
	if changed, err := s.CheckContent(t.Context(), digest, nil); changed || err != nil {
		t.Fatalf("as it was unpacked: changed %v, %v", changed, err)
	}
	change(t, filepath.Join(root.Image(digest), "bin/agent"), "PROGRAM")
	if _, err := s.Whole(digest); err != nil {
		t.Fatalf("a look that reads no content found %v", err)
	}
	if changed, err := s.CheckContent(t.Context(), digest, nil); !changed || err != nil {
		t.Fatalf("after the change: changed %v, %v", changed, err)
	}
	if _, err := s.WholeLately(digest, time.Hour); !fault.Is(err, fault.Conflict) || !s.Damaged(digest) ||
		!strings.Contains(err.Error(), "bin/agent has another content") {
		t.Errorf("a look after it: %v, damaged %v; want a conflict that names the file", err, s.Damaged(digest))
	}
	if err := i.Store(root); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Stage(t.Context(), i.Manifest, nil), s.Renew(digest)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Whole(digest); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(root.Image(digest), "bin/agent")); string(data) != "program" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

func TestAReadingThatIsEndedFindsNothing(t *testing.T) {
	_, s, i := staged(t)
	ctx, cancel := context.WithCancel(t.Context())
	read := 0
	changed, err := s.CheckContent(ctx, i.Manifest.Blob.Digest, func(_ context.Context, n int) error {
		read += n
		cancel()
		return ctx.Err()
	})
	if changed || !errors.Is(err, context.Canceled) || read != len("program") {
		t.Errorf("changed %v, %v after %d bytes; want neither, and the pace to be asked", changed, err, read)
	}
}
