package imagedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// looked is what a look at a whole image gave.
type looked struct {
	mark Mark
	err  error
	at   time.Time
}

// maxLooked is how many looks are remembered.
const maxLooked = 256

// lately remembers the last look at each image.
type lately struct {
	mu sync.Mutex
	at map[string]looked // by digest

	changed map[string]contentDamage // by digest
}

// contentDamage is another content that CheckContent found in a directory.
type contentDamage struct {
	in   fs.FileInfo
	what string
}

// damage is the error of a look that found an image damaged.
func damage(what string) error { return fault.New(fault.Conflict, "its image was changed: %s", what) }

// Whole compares an image on the disk with its mark: one stat for each of its files, and what CheckContent found. The
// error of a damaged image names the files. What was added is no damage; the mark that it returns names it.
func (s *Images) Whole(digest []byte) (Mark, error) {
	m, err := s.whole(digest)
	s.last.mu.Lock()
	defer s.last.mu.Unlock()
	if s.last.at == nil || len(s.last.at) >= maxLooked {
		s.last.at = map[string]looked{}
	}
	s.last.at[string(digest)] = looked{m, err, time.Now()}
	return m, err
}

// WholeLately returns what Whole gave at most so long ago, and looks when that is longer
// ago. It is for those who ask every few seconds. That an image is gone is seen at once.
func (s *Images) WholeLately(digest []byte, within time.Duration) (Mark, error) {
	s.last.mu.Lock()
	l, ok := s.last.at[string(digest)]
	s.last.mu.Unlock()
	if !ok || time.Since(l.at) > within || !s.there(digest) {
		return s.Whole(digest)
	}
	return l.mark, l.err
}

func (s *Images) there(digest []byte) bool {
	_, err := s.Mark(digest)
	return err == nil
}

func (s *Images) whole(digest []byte) (Mark, error) {
	m, err := s.Mark(digest)
	if err != nil {
		return m, err
	}
	damaged, added, err := m.tree(s.root.Image(digest))
	if err != nil {
		return m, err
	}
	if damaged != "" {
		return m, damage(damaged)
	}
	m.Added = added
	return m, s.contentChanged(digest)
}

// An image that is damaged is replaced as a whole, never mended file by file. A copy is
// staged beside it (images/DIGEST.fresh), and the two directories change places in one
// step. Killed before that step, the damaged one stands in its place; killed after it, the
// good one does. In both cases Renew, called again, brings the rest to its end.

// Prepared reports whether a whole copy of the image is on the disk: in its place, or staged
// beside a damaged one.
func (s *Images) Prepared(digest []byte) bool {
	if _, err := s.Whole(digest); err == nil {
		return true
	}
	return s.wholeAt(s.root.FreshImage(digest), digest)
}

// Damaged reports whether something is in the image's place that is not the whole image.
func (s *Images) Damaged(digest []byte) bool {
	if _, err := os.Lstat(s.root.Image(digest)); err != nil {
		return false
	}
	_, err := s.Whole(digest)
	return err != nil
}

// Renew puts the fresh copy of a damaged image in its place and deletes the damaged one. An
// image that is whole stays. It is an error when neither the image nor its fresh copy is whole.
func (s *Images) Renew(digest []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, fresh := s.root.Image(digest), s.root.FreshImage(digest)
	if _, err := s.Whole(digest); err != nil {
		if !s.wholeAt(fresh, digest) {
			return fault.New(fault.Internal, "image %x is damaged, and no whole copy of it is here", digest)
		}
		if err := errors.Join(exchange(fresh, place), layout.SyncDir(s.root.Images())); err != nil {
			return fmt.Errorf("put the fresh copy of image %x in its place: %w", digest, err)
		}
		if _, err := s.Whole(digest); err != nil { // also to forget the remembered damage
			return err
		}
	}
	_ = RemoveTree(fresh) // what cannot be deleted is found by SweepFresh
	return nil
}

// exchange makes two directories change places. Where the file system cannot do that in one
// step, the first takes the place of the second, which is moved aside and swept later.
func exchange(fresh, place string) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, place, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EXDEV) { // the damaged one lies in a lower layer of an overlay
		if err := RemoveTree(place); err != nil {
			return err
		}
		return os.Rename(fresh, place)
	}
	if errors.Is(err, unix.ENOENT) { // killed in between, or the damaged one was deleted
		return os.Rename(fresh, place)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		aside := fresh + "-old"
		if err := errors.Join(RemoveTree(aside), os.Rename(place, aside)); err != nil {
			return err
		}
		return errors.Join(os.Rename(fresh, place), RemoveTree(aside))
	}
	return err
}

// SweepFresh deletes the fresh copies that no repair will use: those of images that are whole
// or not in the way, and those that are not wanted.
func (s *Images) SweepFresh(wanted func(digest []byte) (bool, error)) error {
	if !s.mu.TryLock() { // it is called often
		return nil
	}
	defer s.mu.Unlock()
	var all error
	for _, name := range names(s.root.Images()) {
		digest, ok := layout.FreshDigest(name)
		if !ok {
			continue
		}
		keep := false
		if s.Damaged(digest) {
			var err error
			if keep, err = wanted(digest); err != nil {
				return errors.Join(all, err)
			}
		}
		if !keep {
			all = errors.Join(all, RemoveTree(s.root.Path("images", name)))
		}
	}
	return all
}

// wholeAt reports whether a directory holds the whole image.
func (s *Images) wholeAt(dir string, digest []byte) bool {
	m, err := markIn(dir, digest)
	if err != nil {
		return false
	}
	damaged, _, err := m.tree(dir)
	return err == nil && damaged == ""
}

// placeFor returns where a new copy of an image goes: to its place, or beside what is there.
func (s *Images) placeFor(digest []byte) (string, error) {
	place, fresh := s.root.Image(digest), s.root.FreshImage(digest)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return place, nil
	}
	return fresh, RemoveTree(fresh)
}
