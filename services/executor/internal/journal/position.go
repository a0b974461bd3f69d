package journal

import (
	"errors"
	"slices"

	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

var (
	keyEpoch = []byte("epoch")
	keyMark  = []byte("mark")
)

// Position returns the position of the newest document that was taken. A journal of a time without epochs says neither
// epoch nor mark.
func (t *Tx) Position() lineage.Position {
	return lineage.Position{Epoch: t.number(keyEpoch), Generation: t.Applied(), Mark: t.number(keyMark)}
}

// SetPosition keeps the position of the newest document that was taken.
func (t *Tx) SetPosition(p lineage.Position) error {
	return errors.Join(t.SetApplied(p.Generation), t.setNumber(keyEpoch, p.Epoch), t.setNumber(keyMark, p.Mark))
}

// ForgetEnded forgets how tasks ended: in a new epoch of the server's history the same ids may name other changes.
func (t *Tx) ForgetEnded() error {
	order := t.tx.Bucket(bucketOrder)
	var keys, ids [][]byte
	err := order.ForEach(func(k, id []byte) error {
		keys, ids = append(keys, slices.Clone(k)), append(ids, slices.Clone(id))
		return nil
	})
	for n := range keys {
		err = errors.Join(err, order.Delete(keys[n]), t.tx.Bucket(bucketEnded).Delete(ids[n]))
	}
	return err
}
