package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// Keep is which replaced versions stay on the disk, so that the way back to one fetches
// nothing. The zero Keep keeps none.
type Keep struct {
	Versions int    // of one agent
	Bytes    uint64 // of all agents together, unpacked
}

// DefaultKeep is for production.
var DefaultKeep = Keep{Versions: 1, Bytes: 2 << 30}

// beyond returns the kept versions that the policy does not keep: of each agent the newest
// stay, and of all the oldest go first. What something else needs anyway costs nothing.
func (k Keep) beyond(kept map[string][]journal.Kept, needed func(digest []byte) bool) (gone []journal.Kept) {
	var all []journal.Kept
	for _, of := range kept {
		n := min(max(k.Versions, 0), len(of))
		all, gone = append(all, of[:n]...), append(gone, of[n:]...)
	}
	slices.SortFunc(all, func(a, b journal.Kept) int { // the newest first
		return cmp.Or(b.Since.Compare(a.Since), bytes.Compare(a.Image.Digest(), b.Image.Digest()))
	})
	var sum uint64
	paid := map[string]bool{}
	full := false
	for _, one := range all {
		name := hexOf(one.Image.Digest())
		if paid[name] || needed(one.Image.Digest()) {
			continue
		}
		size := one.Image.GetBlob().GetUnpackedSizeBytes()
		if full = full || size > k.Bytes-sum; full {
			gone = append(gone, one)
			continue
		}
		sum += size
		paid[name] = true
	}
	return gone
}

// oldest returns the kept version that was replaced longest ago, of those whose files
// nothing else needs and that are not given up yet.
func oldest(kept map[string][]journal.Kept, needed func(digest []byte) bool) []journal.Kept {
	var out []journal.Kept
	for _, of := range kept {
		for _, k := range of {
			if !k.Going && !needed(k.Image.Digest()) && (len(out) == 0 || k.Since.Before(out[0].Since)) {
				out = []journal.Kept{k}
			}
		}
	}
	return out
}

// GiveUpAll deletes every kept version, and what was fetched ahead.
func (s *Images) GiveUpAll() error {
	_, first := s.GiveUpAhead(nil)
	_, err := s.giveUp(nil, Keep{}.beyond)
	return errors.Join(first, err)
}

// Ways returns the kept versions of each agent as they are reported, the newest first.
func (s *Images) Ways() (map[string][]*imagev1.Kept, error) {
	out := map[string][]*imagev1.Kept{}
	err := s.journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		if err != nil || len(kept) == 0 {
			return err
		}
		instances, err := tx.Instances()
		if err != nil {
			return err
		}
		installed := map[string]bool{} // not what changes need: the change that ends is still there
		for _, i := range instances {
			installed[string(i.Image.Digest())] = true
		}
		for agent, of := range kept {
			for n, k := range of {
				if k.Going || n >= s.Keep.Versions {
					continue
				}
				way := &imagev1.Kept{
					Image: k.Image.Ref(), Since: timestamppb.New(k.Since), ChangesLeft: uint32(s.Keep.Versions - n),
				}
				if !installed[string(k.Image.Digest())] {
					way.Bytes = k.Image.GetBlob().GetUnpackedSizeBytes()
				}
				out[agent] = append(out[agent], way)
			}
		}
		return nil
	})
	return out, err
}

// choice returns the kept versions to give up.
type choice func(kept map[string][]journal.Kept, needed func([]byte) bool) []journal.Kept

// ApplyKeep deletes what is beyond the policy. A change that is about to end may be excepted
// from what needs an image.
func (s *Images) ApplyKeep(except *change.Record) error {
	_, err := s.giveUp(except, s.Keep.beyond)
	return err
}

// GiveUpOldest deletes one kept version for the room that it takes, but not the one with a
// digest. It reports whether one went.
func (s *Images) GiveUpOldest(but []byte) (bool, error) {
	n, err := s.giveUp(nil, func(kept map[string][]journal.Kept, needed func([]byte) bool) []journal.Kept {
		return oldest(kept, func(digest []byte) bool { return needed(digest) || bytes.Equal(digest, but) })
	})
	if n > 0 && err != nil {
		s.log.Warn().Err(err).Msg("kept version not deleted")
		err = nil
	}
	return n > 0, err
}

// giveUp deletes the chosen kept versions, and those that were given up earlier and are still
// on the disk. The journal first marks them as going, and forgets each once its files are
// gone. It returns how many went.
func (s *Images) giveUp(except *change.Record, choose choice) (int, error) {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	going, err := s.chooseGoing(except, choose)
	if err != nil || len(going) == 0 {
		return 0, err
	}
	err = s.eachKept(func(of []journal.Kept) []journal.Kept {
		for n := range of {
			of[n].Going = going[hexOf(of[n].Image.Digest())]
		}
		return of
	})
	if err != nil {
		return 0, err
	}
	gone := map[string]bool{}
	var left error
	for name := range going {
		deleted, err := s.deleteKept(name, except)
		left = errors.Join(left, err)
		if deleted {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return 0, left
	}
	s.log.Info().Int("count", len(gone)).Msg("kept versions given up")
	return len(gone), errors.Join(left, s.eachKept(func(of []journal.Kept) []journal.Kept {
		return slices.DeleteFunc(of, func(k journal.Kept) bool { return k.Going && gone[hexOf(k.Image.Digest())] })
	}))
}

// chooseGoing returns the digests of the kept versions that are to go.
func (s *Images) chooseGoing(except *change.Record, choose choice) (map[string]bool, error) {
	going := map[string]bool{}
	err := s.journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		if err != nil {
			return err
		}
		needed, err := neededBy(tx, except)
		if err != nil {
			return err
		}
		for _, k := range choose(kept, needed) {
			going[hexOf(k.Image.Digest())] = true
		}
		for _, of := range kept {
			for _, k := range of {
				if k.Going {
					going[hexOf(k.Image.Digest())] = true
				}
			}
		}
		return nil
	})
	return going, err
}

// deleteKept deletes the files of a version that was given up, unless something needs them.
// It reports whether nothing of them is left.
func (s *Images) deleteKept(name string, except *change.Record) (deleted bool, err error) {
	digest, err := hex.DecodeString(name)
	if err != nil {
		return false, err
	}
	vetoed := false
	_, err = s.Remove(digest, func() (bool, error) {
		var err error
		vetoed, err = s.Needed(digest, except)
		return vetoed, err
	})
	return err == nil && !vetoed, err
}

// eachKept changes the journal's kept versions of every agent.
func (s *Images) eachKept(edit func([]journal.Kept) []journal.Kept) error {
	return s.journal.Update(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		for agent, of := range kept {
			err = errors.Join(err, tx.SetKept(agent, edit(of)))
		}
		return err
	})
}
