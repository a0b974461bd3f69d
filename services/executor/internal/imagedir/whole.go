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

	changed map[string]fs.FileInfo // directories in which CheckContent found another content, by digest
}

// Whole compares an image on the disk with its mark: one stat for each of its files, and what CheckContent found.
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
	tree, err := treeOf(s.root.Image(digest))
	if err != nil {
		return m, err
	}
	if tree != m.Tree {
		return m, fault.New(fault.Conflict, "the files of image %x are not as they were unpacked", digest)
	}
	return m, s.contentChanged(digest)
}
