package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
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

// Ended is a task that ended here. It is never executed again.
type Ended struct {
	State   taskv1.State `json:"state"`
	Outcome []byte       `json:"outcome"` // garrison.task.v1.Outcome
	At      time.Time    `json:"at"`
}

// ReadOutcome returns the outcome as it was reported.
func (e Ended) ReadOutcome() (*taskv1.Outcome, error) {
	o := &taskv1.Outcome{}
	return o, proto.Unmarshal(e.Outcome, o)
}

// EndTask keeps how a task ended.
func (t *Tx) EndTask(id string, s taskv1.State, o *taskv1.Outcome) error {
	data, err := proto.Marshal(o)
	if err != nil {
		return err
	}
	return t.End(id, Ended{State: s, Outcome: data, At: time.Now()})
}

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

// NoteReset is the note of the last ResetPosition: when it was, and which position was forgotten.
const NoteReset = "generation-reset"

// ResetPosition forgets which document was taken last, and notes that. The next document that is read is taken,
// whatever its generation.
func (t *Tx) ResetPosition(now time.Time) (was lineage.Position, err error) {
	was = t.Position()
	if err := t.SetPosition(lineage.Position{}); err != nil {
		return was, err
	}
	return was, t.SetNote(NoteReset, fmt.Sprintf("%s: forgot generation %d of epoch %d, mark %016x",
		now.UTC().Format(time.RFC3339), was.Generation, max(was.Epoch, 1), was.Mark))
}

// Trash is what a removal set aside and is still to be deleted.
type Trash struct {
	Name       string    `json:"name"` // of the directory, beside those of agents
	Agent      string    `json:"agent"`
	InstanceID string    `json:"instance_id"`
	Since      time.Time `json:"since"`
	Why        string    `json:"why,omitempty"` // why the last try did not delete it all
}

// Trash returns what is still to be deleted, by name.
func (t *Tx) Trash() ([]*Trash, error) { return list[Trash](t.tx.Bucket(bucketTrash)) }

// PutTrash writes what is to be deleted.
func (t *Tx) PutTrash(x *Trash) error { return put(t.tx.Bucket(bucketTrash), x.Name, x) }

// DropTrash forgets what was deleted.
func (t *Tx) DropTrash(name string) error { return t.tx.Bucket(bucketTrash).Delete([]byte(name)) }

// Inventory is what is installed and what is being changed, in one state of the journal.
type Inventory struct {
	Instances []*change.Instance // by agent
	Changes   []*change.Record   // in the order in which they began
}

// Inventory returns the inventory and the open changes.
func (j *Journal) Inventory() (in Inventory, err error) {
	err = j.Read(func(tx *Tx) (err error) {
		in, err = tx.Inventory()
		return err
	})
	return in, err
}

// Inventory returns the inventory and the open changes.
func (t *Tx) Inventory() (in Inventory, err error) {
	var errs [2]error
	in.Instances, errs[0] = t.Instances()
	in.Changes, errs[1] = t.Changes()
	return in, errors.Join(errs[:]...)
}

// Instance returns the inventory's line about an agent, or nil.
func (j *Journal) Instance(agent string) (now *change.Instance, err error) {
	err = j.Read(func(tx *Tx) (err error) {
		now, err = tx.Instance(agent)
		return err
	})
	return now, err
}

// The journal must be writable also when the disk is full, or a change could neither be
// undone nor ended. So there is always some space behind what it uses.
const (
	reservedLeast  = 4 << 20
	reservedBehind = 1 << 20
)

// reserve takes space on the disk for a journal to grow into. Where it cannot, the
// journal works as well, until the disk is full.
func reserve(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil {
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, max(reservedLeast, info.Size()+reservedBehind))
	}
}
