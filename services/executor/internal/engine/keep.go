package engine

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// Keep says which replaced versions are kept on the disk, so that the way back to one
// needs nothing to be fetched. The zero Keep keeps none.
type Keep struct {
	Versions int    // of one agent
	Bytes    uint64 // of all agents together, unpacked
}

// DefaultKeep is for production.
var DefaultKeep = Keep{Versions: 1, Bytes: 2 << 30}

// beyond gives the kept versions that the policy does not keep: of each agent the newest
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

// oldest gives the kept version that was replaced longest ago, of those whose files
// nothing else needs and that is not given up already.
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

// giveUp deletes the kept versions that choose gives, and those that were given up before
// and are still there: after a crash, because something else needed them, or because they
// could not be deleted. The journal says first that they go, and knows of each until its
// files are gone. It gives how many went. A change that is about to end may be excepted
// from what needs something.
func (e *Engine) giveUp(except *journal.Change, choose func(kept map[string][]journal.Kept, needed func([]byte) bool) []journal.Kept) (int, error) {
	e.keeping.Lock()
	defer e.keeping.Unlock()
	going, err := e.chooseGoing(except, choose)
	if err != nil || len(going) == 0 {
		return 0, err
	}
	err = e.eachKept(func(of []journal.Kept) []journal.Kept {
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
		deleted, err := e.deleteKept(name, except)
		left = errors.Join(left, err)
		if deleted {
			gone[name] = true
		}
	}
	if len(gone) == 0 {
		return 0, left
	}
	e.cfg.Log.Info().Int("count", len(gone)).Msg("kept versions given up")
	return len(gone), errors.Join(left, e.eachKept(func(of []journal.Kept) []journal.Kept {
		return slices.DeleteFunc(of, func(k journal.Kept) bool { return k.Going && gone[hexOf(k.Image.Digest())] })
	}))
}

// chooseGoing gives the digests of the kept versions that are to go.
func (e *Engine) chooseGoing(except *journal.Change, choose func(map[string][]journal.Kept, func([]byte) bool) []journal.Kept) (map[string]bool, error) {
	going := map[string]bool{}
	err := e.cfg.Journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		if err != nil {
			return err
		}
		needed, err := neededIn(tx, except)
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

// deleteKept deletes the files of a version that was given up, unless something needs
// them. It says whether nothing of them is left.
func (e *Engine) deleteKept(name string, except *journal.Change) (deleted bool, err error) {
	digest, err := hex.DecodeString(name)
	if err != nil {
		return false, err
	}
	vetoed := false
	_, err = e.images.Remove(digest, func() (bool, error) {
		var err error
		vetoed, err = e.needed(digest, except)
		return vetoed, err
	})
	return err == nil && !vetoed, err
}

// eachKept changes the journal's kept versions of every agent.
func (e *Engine) eachKept(change func([]journal.Kept) []journal.Kept) error {
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		for agent, of := range kept {
			err = errors.Join(err, tx.SetKept(agent, change(of)))
		}
		return err
	})
}

// applyKeep gives up what is beyond the policy.
func (e *Engine) applyKeep(except *journal.Change) error {
	_, err := e.giveUp(except, e.cfg.Keep.beyond)
	return err
}

// giveUpOldest gives up one kept version for the room that it takes, but for one; it says
// whether one went.
func (e *Engine) giveUpOldest(but []byte) (bool, error) {
	n, err := e.giveUp(nil, func(kept map[string][]journal.Kept, needed func([]byte) bool) []journal.Kept {
		return oldest(kept, func(digest []byte) bool { return needed(digest) || bytes.Equal(digest, but) })
	})
	if n > 0 && err != nil {
		e.cfg.Log.Warn().Err(err).Msg("kept version not deleted")
		err = nil
	}
	return n > 0, err
}
