package fold

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/logs"
)

// markEvery is the interval at which the mark is written while facts arrive. A mark names a fact that was
// folded a whole interval before.
const markEvery = time.Second

var markFormat = format.Spec{Kind: "mark of the ledger", Now: 1, Floor: 1, Oldest: 1}

// mark records how far a service has read a ledger. It is kept beside the snapshot, and only while the bus
// acknowledges nothing before it is on the disk: a ledger that lacks the marked fact has lost it.
type mark struct {
	format.Stamp
	Created  time.Time `json:"ledger_created"`
	Sequence uint64    `json:"sequence"`
	Stored   time.Time `json:"stored"`
	Missing  uint64    `json:"missing"` // how many missing facts were accepted
	Sum      string    `json:"sha256"`  // of the mark without it
}

// sum returns the digest of the mark. It detects a flipped bit, which would name a fact that never existed.
func (m mark) sum() string {
	m.Sum = ""
	data, _ := json.Marshal(m) // numbers, times and strings always encode
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

func (s *source) markFile() string { return filepath.Join(s.opts.Store, s.opts.Service+".mark") }

// readMark reads the mark; the zero mark when the file is missing or damaged.
func (s *source) readMark() (m mark, err error) {
	if s.opts.Store == "" {
		return m, nil
	}
	data, err := os.ReadFile(s.markFile())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err == nil && m.Sum != m.sum() {
		err = errors.New("checksum is wrong")
	}
	if err != nil {
		s.opts.Log.Warn().Err(err).Str(logs.Path, s.markFile()).
			Msg("mark of the ledger is damaged; a shorter ledger would not be noticed")
		return mark{}, nil
	}
	return m, markFormat.Check(s.markFile(), m.Stamp)
}

// writeMark keeps the mark, whole or not at all.
func (s *source) writeMark(m mark) error {
	m.Stamp = markFormat.Stamp()
	m.Sum = m.sum()
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	err = writeWhole(s.markFile(), func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
	if err == nil {
		s.marked = m
	}
	return err
}

// here returns the mark of the present view.
func (f *Follower) here() mark {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s := &f.source
	return mark{Created: s.created.UTC(), Sequence: f.position, Stored: f.stored.UTC(), Missing: s.accepted}
}

// startMark keeps the mark until stop is called, if there is a store and the bus is known
// to acknowledge only messages on its disk.
func (f *Follower) startMark(ctx context.Context) (stop func()) {
	if f.opts.Store == "" || !f.source.durable {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.keepMark(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// keepMark writes the mark while the view changes, and once more at the end.
func (f *Follower) keepMark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for before := f.here(); ; {
		select {
		case <-ctx.Done():
			f.source.noteMark(f.here())
			return
		case <-tick.C:
		}
		f.source.noteMark(before)
		before = f.here()
	}
}

// noteMark writes the mark when it is ahead of the stored one.
func (s *source) noteMark(m mark) {
	if m.Sequence <= s.marked.Sequence {
		return
	}
	if err := s.writeMark(m); err != nil {
		s.opts.Log.Warn().Err(err).Msg("mark of the ledger not written")
	}
}
