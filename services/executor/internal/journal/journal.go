// Package journal is the executor's memory on the disk: what it has, what it is
// changing, what it ended, and what it has still to say.
//
// Guarantees:
//
//  1. Update is all or nothing, and is on the disk when it returns (bbolt syncs each
//     transaction). A change's line is therefore there before its step is begun.
//  2. A task that ended, its report and the inventory after it are written in one
//     Update: after a crash they are all there, or the change is still open.
//  3. Report sequences of one journal only increase and are never used twice. A journal
//     has a random name, which its reports carry.
//  4. The journal has space of its own to grow into, so a full disk does not stop it at once.
//  5. Open never hands bbolt a file that it cannot read, never uses one that is older than
//     its mark, and never writes to one of a newer program. What cannot be used is set
//     aside, and Origin says why. Damage met later is ErrDamaged, not the end of the process.
//  6. The outbox keeps MaxOutbox reports at most, and the ended tasks are MaxEnded at most.
package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/sum"
)

// MaxEnded is how many ended tasks are remembered.
const MaxEnded = 2000

var (
	bucketMeta      = []byte("meta")
	bucketInstances = []byte("instances")
	bucketChanges   = []byte("changes")
	bucketEnded     = []byte("ended")
	bucketOrder     = []byte("ended-order")
	bucketOutbox    = []byte("outbox")
	bucketKept      = []byte("kept")
	bucketTrash     = []byte("trash")
	buckets         = [][]byte{
		bucketMeta,
		bucketInstances,
		bucketChanges,
		bucketEnded,
		bucketOrder,
		bucketOutbox,
		bucketKept,
		bucketTrash,
	}
)

var (
	keySequence = []byte("sequence")
	keyApplied  = []byte("applied")
)

// Journal is open on the disk. One process has it at a time.
type Journal struct {
	db     *bbolt.DB
	path   string
	file   *os.File // the database's own
	news   chan struct{}
	id     string
	origin Origin
	marked bool // its mark is kept

	// using is held by each transaction: one that finds damage leaves locks of the database locked, and one behind it
	// must see broken first.
	using  sync.Mutex
	broken atomic.Bool
}

// ID names the journal. It is made at random with it, and two journals never share it.
func (j *Journal) ID() string { return j.id }

// Origin reports how the journal was found when it was opened.
func (j *Journal) Origin() Origin { return j.origin }

// Outbox receives when a report was added to the outbox.
func (j *Journal) Outbox() <-chan struct{} { return j.news }

// Update changes the journal, all or nothing, and returns when it is on the disk. f must not use the journal but
// through its Tx.
func (j *Journal) Update(f func(*Tx) error) error {
	j.using.Lock()
	defer j.using.Unlock()
	var t *Tx
	err := j.guarded(func() error {
		return j.write(func(tx *bbolt.Tx) error {
			t = &Tx{tx: tx}
			if err := j.has(tx); err != nil {
				return err
			}
			return f(t)
		})
	})
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if t.counted {
		j.mark(t.count)
	}
	if t.said {
		select {
		case j.news <- struct{}{}:
		default:
		}
	}
	return nil
}

// write does f in a transaction of the database. Unlike the database's Update it leaves the transaction open when f
// panics: ending it would read the whole file in another goroutine, where a fault of memory ends the process. Nothing
// uses a damaged database again.
func (j *Journal) write(f func(*bbolt.Tx) error) error {
	tx, err := j.db.Begin(true)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Read looks at one state of the journal. f must not use the journal but through its Tx.
func (j *Journal) Read(f func(*Tx) error) error {
	j.using.Lock()
	defer j.using.Unlock()
	err := j.guarded(func() error {
		return j.db.View(func(tx *bbolt.Tx) error {
			if err := j.has(tx); err != nil {
				return err
			}
			return f(&Tx{tx: tx})
		})
	})
	if err != nil {
		return fmt.Errorf("read journal: %w", err)
	}
	return nil
}

// Note returns a small value that was kept under a name, or "".
func (j *Journal) Note(name string) (value string, err error) {
	err = j.Read(func(tx *Tx) error { value = tx.Note(name); return nil })
	return value, err
}

// SetNote keeps a small value under a name.
func (j *Journal) SetNote(name, value string) error {
	return j.Update(func(tx *Tx) error { return tx.SetNote(name, value) })
}

// Tx is one state of the journal, within Update or Read.
type Tx struct {
	tx      *bbolt.Tx
	said    bool
	counted bool // the mark is to be written
	count   uint64
}

// ID names the journal; empty before it was opened by a program that names journals.
func (t *Tx) ID() string { return t.Note(noteID) }

// Count is how often the inventory was changed, or a change began to touch an agent. It
// only ever grows, so a journal with a smaller one is older.
func (t *Tx) Count() uint64 { return t.number(keyCount) }

// Advance increases Count, for what must not be forgotten unnoticed.
func (t *Tx) Advance() error {
	t.counted, t.count = true, t.Count()+1
	return t.setNumber(keyCount, t.count)
}

// Applied is the generation of the newest document that was taken.
func (t *Tx) Applied() uint64 { return t.number(keyApplied) }

// SetApplied keeps it.
func (t *Tx) SetApplied(generation uint64) error { return t.setNumber(keyApplied, generation) }

// Note returns a small value that was kept under a name, or "".
func (t *Tx) Note(name string) string {
	if t.tx.Bucket(bucketMeta) == nil { // looked at only, and new
		return ""
	}
	return string(t.tx.Bucket(bucketMeta).Get([]byte("note." + name)))
}

// SetNote keeps a small value under a name, unless it is kept already.
func (t *Tx) SetNote(name, value string) error {
	if t.Note(name) == value {
		return nil
	}
	return t.tx.Bucket(bucketMeta).Put([]byte("note."+name), []byte(value))
}

// ForgetNotes forgets the values whose names begin with a prefix.
func (t *Tx) ForgetNotes(prefix string) (err error) {
	begins := []byte("note." + prefix)
	var keys [][]byte
	c := t.tx.Bucket(bucketMeta).Cursor()
	for k, _ := c.Seek(begins); bytes.HasPrefix(k, begins); k, _ = c.Next() {
		keys = append(keys, slices.Clone(k))
	}
	for _, k := range keys {
		err = errors.Join(err, t.tx.Bucket(bucketMeta).Delete(k))
	}
	return err
}

func (t *Tx) number(key []byte) uint64 {
	if v := t.tx.Bucket(bucketMeta).Get(key); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (t *Tx) setNumber(key []byte, n uint64) error {
	return t.tx.Bucket(bucketMeta).Put(key, binary.BigEndian.AppendUint64(nil, n))
}

// Instances returns the inventory, by agent.
func (t *Tx) Instances() ([]*change.Instance, error) {
	return list[change.Instance](t.tx.Bucket(bucketInstances))
}

// Instance returns the inventory's line about an agent, or nil.
func (t *Tx) Instance(agent string) (*change.Instance, error) {
	return get[change.Instance](t.tx.Bucket(bucketInstances), agent)
}

// PutInstance writes a line of the inventory.
func (t *Tx) PutInstance(i *change.Instance) error {
	return errors.Join(t.Advance(), put(t.tx.Bucket(bucketInstances), i.Agent, i))
}

// DropInstance deletes a line of the inventory.
func (t *Tx) DropInstance(agent string) error {
	return errors.Join(t.Advance(), t.tx.Bucket(bucketInstances).Delete([]byte(agent)))
}

// Changes returns the open changes, in the order in which they began.
func (t *Tx) Changes() ([]*change.Record, error) {
	all, err := list[change.Record](t.tx.Bucket(bucketChanges))
	slices.SortStableFunc(all, func(a, b *change.Record) int { return a.BeganAt.Compare(b.BeganAt) })
	return all, err
}

// PutChange writes an open change.
func (t *Tx) PutChange(c *change.Record) error { return put(t.tx.Bucket(bucketChanges), c.Agent, c) }

// DropChange deletes an agent's open change.
func (t *Tx) DropChange(agent string) error {
	return t.tx.Bucket(bucketChanges).Delete([]byte(agent))
}

// Ended returns how a task ended here, or nil.
func (t *Tx) Ended(taskID string) (*Ended, error) {
	return get[Ended](t.tx.Bucket(bucketEnded), taskID)
}

// End remembers how a task ended and forgets the oldest beyond MaxEnded.
func (t *Tx) End(taskID string, e Ended) error {
	order := t.tx.Bucket(bucketOrder)
	n, err := order.NextSequence()
	if err != nil {
		return err
	}
	if err := order.Put(binary.BigEndian.AppendUint64(nil, n), []byte(taskID)); err != nil {
		return err
	}
	if k, old := order.Cursor().First(); binary.BigEndian.Uint64(k)+MaxEnded <= n {
		if err := errors.Join(
			t.tx.Bucket(bucketEnded).Delete(slices.Clone(old)), order.Delete(slices.Clone(k)),
		); err != nil {
			return err
		}
	}
	return put(t.tx.Bucket(bucketEnded), taskID, &e)
}

func get[T any](b *bbolt.Bucket, key string) (*T, error) {
	data := b.Get([]byte(key))
	if data == nil {
		return nil, nil
	}
	if err := sum.Check(key, data); err != nil {
		return nil, err
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("record %s: %w", key, err)
	}
	return v, nil
}

func put(b *bbolt.Bucket, key string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", key, err)
	}
	return b.Put([]byte(key), sum.Add(key, data))
}

func list[T any](b *bbolt.Bucket) ([]*T, error) {
	if b == nil { // looked at only, and written before there was such a bucket
		return nil, nil
	}
	var out []*T
	err := b.ForEach(func(k, _ []byte) error {
		v, err := get[T](b, strings.Clone(string(k)))
		out = append(out, v)
		return err
	})
	return out, err
}
