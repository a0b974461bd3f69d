package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// maxAhead is how many images that were fetched ahead stay at most.
const maxAhead = 16

// noteAhead is the note in which the journal lists the images that were fetched ahead, a line for each: its digest,
// how long it stays, and what it is.
const noteAhead = "ahead"

// ahead is an image that was fetched ahead of the change that brings it.
type ahead struct {
	digest string // in hex
	until  time.Time
	what   string // its agent and version; empty where an earlier executor fetched it
}

func readAhead(tx *journal.Tx) (all []ahead) {
	for line := range strings.Lines(tx.Note(noteAhead)) {
		digest, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		text, what, _ := strings.Cut(rest, " ")
		until, err := time.Parse(time.RFC3339, text)
		if err == nil {
			all = append(all, ahead{digest, until, what})
		}
	}
	return all
}

// setAhead keeps those that stay, the longest first.
func setAhead(tx *journal.Tx, all []ahead) error {
	now := time.Now()
	all = slices.DeleteFunc(all, func(a ahead) bool { return !a.until.After(now) })
	slices.SortStableFunc(all, func(a, b ahead) int { return b.until.Compare(a.until) })
	var text strings.Builder
	for _, a := range all[:min(len(all), maxAhead)] {
		line := a.digest + " " + a.until.UTC().Format(time.RFC3339) + " " + a.what
		text.WriteString(strings.TrimSpace(line) + "\n")
	}
	return tx.SetNote(noteAhead, text.String())
}

// KeepAhead keeps an image that was fetched ahead, until a time.
func KeepAhead(tx *journal.Tx, m *imagev1.Manifest, until time.Time) error {
	digest := m.GetBlob().GetDigest()
	fetched := ahead{hexOf(digest), until, m.GetAgent() + " " + m.GetVersion()}
	return setAhead(tx, append(without(readAhead(tx), digest), fetched))
}

// AheadWords describes the images that were fetched ahead and stay, those that stay longest first.
func AheadWords(tx *journal.Tx) (out []string) {
	now := time.Now()
	for _, a := range readAhead(tx) {
		if a.until.After(now) {
			what := cmp.Or(a.what, "image "+a.digest[:min(len(a.digest), 12)])
			out = append(out, what+", until "+a.until.Local().Format(time.DateTime)+" at the latest")
		}
	}
	return out
}

// ForgetAhead forgets that an image was fetched ahead: the change that brings it has ended.
func ForgetAhead(tx *journal.Tx, digest []byte) error {
	all := readAhead(tx)
	if len(all) == 0 {
		return nil
	}
	return setAhead(tx, without(all, digest))
}

func without(all []ahead, digest []byte) []ahead {
	return slices.DeleteFunc(all, func(a ahead) bool { return a.digest == hexOf(digest) })
}

// aheadNow returns the digests of the images that were fetched ahead and stay.
func aheadNow(tx *journal.Tx) (out [][]byte) {
	now := time.Now()
	for _, a := range readAhead(tx) {
		if digest, err := hex.DecodeString(a.digest); err == nil && a.until.After(now) {
			out = append(out, digest)
		}
	}
	return out
}

// GiveUpAhead deletes the images that were fetched ahead, but one with a digest. It reports whether one went.
func (s *Images) GiveUpAhead(but []byte) (bool, error) {
	var gone [][]byte
	err := s.journal.Update(func(tx *journal.Tx) error {
		var keep []ahead
		for _, a := range readAhead(tx) {
			if a.digest == hexOf(but) {
				keep = append(keep, a)
			}
		}
		for _, digest := range aheadNow(tx) {
			if hexOf(digest) != hexOf(but) {
				gone = append(gone, digest)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		return setAhead(tx, keep)
	})
	if err != nil {
		return false, errors.Join(ErrJournal, err)
	}
	for _, digest := range gone {
		_, one := s.Remove(digest, func() (bool, error) { return s.Needed(digest, nil) })
		err = errors.Join(err, one)
	}
	if len(gone) > 0 {
		s.log.Info().Int("count", len(gone)).Msg("images that were fetched ahead given up")
	}
	return len(gone) > 0, err
}

// fetching is an image that is being fetched ahead and holds room on the disk.
type fetching struct {
	digest []byte
	stop   func()
	ended  chan struct{}
}

// HoldsAhead notes that an image which is being fetched ahead holds room. stop makes that end, and the result notes
// that it did. One is fetched at a time.
func (s *Images) HoldsAhead(digest []byte, stop func()) (ended func()) {
	f := &fetching{digest: digest, stop: stop, ended: make(chan struct{})}
	s.mu.Lock()
	s.ahead = f
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		s.ahead = nil
		s.mu.Unlock()
		close(f.ended)
	})
}

// StopAhead ends the fetching of an image ahead that holds room, and deletes what came. It reports whether there was
// one.
func (s *Images) StopAhead(ctx context.Context) (bool, error) {
	s.mu.Lock()
	f := s.ahead
	s.mu.Unlock()
	if f == nil {
		return false, nil
	}
	f.stop()
	select {
	case <-f.ended:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	s.log.Info().Msg("image that was being fetched ahead given up")
	_, err := s.Remove(f.digest, func() (bool, error) { return s.Needed(f.digest, nil) })
	return true, err
}
