package imagedir

import (
	"io/fs"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
