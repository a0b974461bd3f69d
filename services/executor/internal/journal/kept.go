package journal

import (
	"bytes"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// Kept is a version that an agent had before, and whose files are kept for a way back.
type Kept struct {
	Image change.Manifest `json:"image"`
	Since time.Time       `json:"since"`           // when it was replaced
	Going bool            `json:"going,omitempty"` // its files are being deleted
}

// keptOf is the record of an agent's kept versions, the newest first.
type keptOf struct {
	Agent string `json:"agent"`
	Kept  []Kept `json:"kept"`
}

// Kept returns the kept versions of every agent, the newest first.
func (t *Tx) Kept() (map[string][]Kept, error) {
	all, err := list[keptOf](t.tx.Bucket(bucketKept))
	if err != nil {
		return nil, err
	}
	out := make(map[string][]Kept, len(all))
	for _, k := range all {
		out[k.Agent] = k.Kept
	}
	return out, nil
}

// SetKept writes the kept versions of an agent, the newest first.
func (t *Tx) SetKept(agent string, kept []Kept) error {
	if len(kept) == 0 {
		return t.tx.Bucket(bucketKept).Delete([]byte(agent))
	}
	return put(t.tx.Bucket(bucketKept), agent, keptOf{Agent: agent, Kept: kept})
}

// Replace remembers that an agent's version was replaced by another.
func (t *Tx) Replace(agent string, before, after change.Manifest, at time.Time) error {
	was, err := get[keptOf](t.tx.Bucket(bucketKept), agent)
	if err != nil {
		return err
	}
	var kept []Kept
	if was != nil {
		kept = was.Kept
	}
	same := func(k Kept) bool {
		return bytes.Equal(k.Image.Digest(), after.Digest()) || bytes.Equal(k.Image.Digest(), before.Digest())
	}
	kept = slices.DeleteFunc(kept, same)
	if before.Manifest != nil && !bytes.Equal(before.Digest(), after.Digest()) {
		kept = slices.Insert(kept, 0, Kept{Image: before, Since: at})
	}
	return t.SetKept(agent, kept)
}

// KeptBytes returns what the files of the kept versions take at most; 0 when the journal cannot be read.
func (j *Journal) KeptBytes() (bytes uint64) {
	_ = j.Read(func(tx *Tx) error {
		kept, err := tx.Kept()
		for _, of := range kept {
			for _, k := range of {
				bytes += k.Image.GetBlob().GetUnpackedSizeBytes() + k.Image.GetBlob().GetSizeBytes()
			}
		}
		return err
	})
	return bytes
}
