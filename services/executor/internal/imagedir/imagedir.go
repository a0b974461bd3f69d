// Package imagedir keeps unpacked images: one sealed directory for each digest.
//
// Guarantees:
//
//  1. images/DIGEST is there whole or not at all: it is unpacked beside its place,
//     synced, sealed with a mark and then renamed, and renamed again before it is deleted.
//  2. The mark names the image and what the tree looked like, so that a file
//     that was changed, added or lost since is found without reading every byte.
//  3. What was removed does not come back when the power is cut.
//  4. Staging the same image again does nothing. Staging and removal of images are one at a time.
//  5. A damaged image is replaced as a whole by a copy staged beside it, in one step.
package imagedir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/garrison-fleet/garrison/pkg/archive"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/regular"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/mounts"
	"github.com/garrison-fleet/garrison/services/executor/internal/unpack"
)

// Images are the unpacked images and the chunk caches under a root.
type Images struct {
	root layout.Root
	mu   sync.Mutex // staging and removal are one at a time; it also bounds the memory of unpacking
	last lately
}

// Format numbers the marks. Those from before there were numbers are read.
var Format = format.Spec{Kind: "mark of an image", Now: 1, Floor: 1}

// Mark seals an image.
type Mark struct {
	format.Stamp
	ImageID string `json:"image_id"`
	Agent   string `json:"agent"`
	Version string `json:"version"`
	Digest  string `json:"digest"` // of the blob
	Tree    string `json:"tree"`   // of the listing

	Content string `json:"content,omitempty"` // of the files' content; older executors wrote none

	Files json.RawMessage `json:"files,omitempty"` // the listing that names a difference; older executors wrote none
	Added string          `json:"-"`               // what a look found beside the image's files, in words
}

// New returns the images under root.
func New(root layout.Root) *Images { return &Images{root: root} }

// Mark reads the mark of an image. An error is NotFound when the image is not there.
func (s *Images) Mark(digest []byte) (Mark, error) { return markIn(s.root.Image(digest), digest) }

func markIn(dir string, digest []byte) (Mark, error) {
	var m Mark
	data, err := regular.ReadFile(filepath.Join(dir, archive.Reserved))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fault.New(fault.NotFound, "image %x is not on the disk", digest)
	}
	if err != nil {
		return m, fmt.Errorf("read the mark of image %x: %w", digest, err)
	}
	if err := json.Unmarshal(data, &m); err != nil || m.Digest != hex.EncodeToString(digest) {
		return m, fault.New(fault.Internal, "the mark of image %x is damaged", digest)
	}
	return m, Format.Check(filepath.Join(dir, archive.Reserved), m.Stamp)
}

// Verify compares the cached chunks, put together, with the blob's digest.
func (s *Images) Verify(ctx context.Context, b *imagev1.Blob) error {
	h, chunks := sha256.New(), s.chunks(ctx, b)
	n, err := io.Copy(h, chunks)
	err = errors.Join(err, chunks.Close())
	if err != nil {
		return fmt.Errorf("verify image %x: %w", b.GetDigest(), err)
	}
	if !bytes.Equal(h.Sum(nil), b.GetDigest()) || uint64(n) != b.GetSizeBytes() {
		return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code.WrongDigest,
			Message: fmt.Sprintf("the chunks together have digest %x and %d bytes, want %x and %d", h.Sum(nil), n,
				b.GetDigest(), b.GetSizeBytes())})
	}
	return nil
}

// Stage unpacks the cached chunks of an image and seals it, unless a whole copy is there. The
// cache is not needed after that. When something stands in the image's place that is not
// whole, the copy is staged beside it, for Renew. writing, unless nil, is called before so many bytes are written.
func (s *Images) Stage(ctx context.Context, m *imagev1.Manifest, writing func(bytes uint64)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest := m.GetBlob().GetDigest()
	if s.Prepared(digest) {
		return nil
	}
	place, err := s.placeFor(digest)
	if err := errors.Join(err, os.MkdirAll(s.root.Images(), 0o755)); err != nil {
		return fmt.Errorf("stage image %s: %w", m.GetId(), err)
	}
	tmp := filepath.Join(s.root.Images(), layout.TemporaryPrefix+hex.EncodeToString(digest))
	if err := errors.Join(RemoveTree(tmp), os.Mkdir(tmp, 0o755)); err != nil {
		return fmt.Errorf("stage image %s: %w", m.GetId(), err)
	}
	err = s.fill(ctx, tmp, m, writing)
	if err == nil {
		err = os.Rename(tmp, place)
	}
	if err == nil {
		err = layout.SyncDir(s.root.Images())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("stage image %s: %w", m.GetId(), err), RemoveTree(tmp))
	}
	return nil
}

func (s *Images) fill(ctx context.Context, dir string, m *imagev1.Manifest, writing func(uint64)) error {
	b := m.GetBlob()
	chunks := s.chunks(ctx, b)
	err := unpack.Unpack(ctx, chunks, dir,
		unpack.Limits{Entries: b.GetEntries(), Bytes: b.GetUnpackedSizeBytes(), Writing: writing})
	if err := errors.Join(err, chunks.Close()); err != nil {
		return err
	}
	if err := SealDirs(dir); err != nil {
		return err
	}
	all, err := list(dir)
	if err == nil {
		err = all.sum(ctx, dir, nil)
	}
	if err != nil {
		return err
	}
	files, err := json.Marshal(all)
	if err != nil {
		return err
	}
	mark, err := json.Marshal(Mark{
		Stamp:   Format.Stamp(),
		ImageID: m.GetId(),
		Agent:   m.GetAgent(),
		Version: m.GetVersion(),
		Digest:  hex.EncodeToString(b.GetDigest()),
		Tree:    all.digest(),
		Content: all.content(),
		Files:   files,
	})
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, archive.Reserved), mark, 0o444); err != nil {
		return err
	}
	return errors.Join(os.Chmod(dir, 0o555), layout.SyncAll(dir))
}

// SealDirs makes a directory and those below it read-only.
func SealDirs(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o555)
	})
}

// Remove deletes an image and its cache, durably, unless needed says that something needs
// it. needed is asked while nothing else is staged or removed. The image is moved away
// first, so that an image with a file that cannot be deleted does not stay in part.
func (s *Images) Remove(digest []byte, needed func() (bool, error)) (removed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keep, err := needed(); err != nil || keep {
		return false, err
	}
	if _, gone := os.Lstat(s.root.CacheOf(digest)); gone == nil {
		err = errors.Join(os.RemoveAll(s.root.CacheOf(digest)), layout.SyncDir(s.root.Cache()))
	}
	err = errors.Join(err, RemoveTree(s.root.FreshImage(digest)))
	gone := s.root.GoneImage(digest)
	if left := RemoveTree(gone); left != nil { // an earlier try could not delete it all
		return false, errors.Join(err, left)
	}
	if renamed := os.Rename(s.root.Image(digest), gone); errors.Is(renamed, fs.ErrNotExist) {
		return false, err
	} else if renamed != nil {
		return false, errors.Join(err, renamed)
	}
	return true, errors.Join(err, layout.SyncDir(s.root.Images()), RemoveTree(gone))
}

// SweepRemoved tries again to delete what Remove moved away and could not delete. While
// images are staged or removed it does nothing: it is called often.
func (s *Images) SweepRemoved() error {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	return s.sweep(layout.GoneName(""))
}

// DropCache deletes the chunks of an image that is staged: nothing reads them after that.
// It was done after the staging, but a power cut may have brought them back.
func (s *Images) DropCache(digest []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Prepared(digest) {
		return nil
	}
	return os.RemoveAll(s.root.CacheOf(digest))
}

// Others lists the digests under images and cache, also unfinished ones' names as they are.
func (s *Images) Others() (images, caches []string) {
	return names(s.root.Images()), names(s.root.Cache())
}

func names(dir string) []string {
	var out []string
	entries, _ := os.ReadDir(dir) // a directory that is not there has nothing
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// SweepTemporary deletes what a crash left half unpacked, or half deleted.
func (s *Images) SweepTemporary() error { return s.sweep(layout.TemporaryPrefix) }

func (s *Images) sweep(prefix string) error {
	var all error
	for _, name := range names(s.root.Images()) {
		if strings.HasPrefix(name, prefix) {
			all = errors.Join(all, RemoveTree(s.root.Path("images", name)))
		}
	}
	return all
}

// RemoveTree deletes a directory, sealed or not, and follows no link: what is in it may be
// a user's who swaps a directory for a link to another place while we look. It refuses
// one in which something is mounted (code.Mounted), and then deletes nothing.
func RemoveTree(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := mounts.Check(dir); err != nil {
		return err
	}
	if err == nil && info.IsDir() {
		unseal(dir)
	}
	return os.RemoveAll(dir)
}

// unseal lets what is below a directory be deleted also by who is not root. What it cannot
// open, the deletion says.
func unseal(dir string) {
	_ = os.Chmod(dir, 0o700)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	_ = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil // also when it is gone, or another one by now: the rest is looked at
	})
}
