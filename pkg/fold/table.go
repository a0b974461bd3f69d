package fold

import (
	"iter"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"
)

// Row is one record of a table with the sequence of the last fact on its key. The guard of the next fact on
// that key must name this sequence.
type Row[T proto.Message] struct {
	Sequence uint64
	Value    T
}

// Table is the records of one noun, by key. It belongs to the goroutine that folds;
// others read it inside Follower.Read. Keys outlive records: after Drop the sequence
// stays, because a later fact on the key must be guarded by it.
type Table[T proto.Message] struct {
	name    string
	rows    map[string]*Row[T]
	dropped map[string]uint64
	share   func(key string, value T) // nil without Share
}

// NewTable makes an empty table.
func NewTable[T proto.Message](name string) *Table[T] {
	return &Table[T]{name: name, rows: map[string]*Row[T]{}, dropped: map[string]uint64{}}
}

// Share has a function called with each record that is read from a snapshot, before the next one is read. It replaces
// parts of the record by equal ones that other records have, which leaves less garbage among the records than once all
// are read.
func (t *Table[T]) Share(share func(key string, value T)) { t.share = share }

// Get returns the record at key.
func (t *Table[T]) Get(key string) (T, bool) {
	if r, ok := t.rows[key]; ok {
		return r.Value, true
	}
	var zero T
	return zero, false
}

// Sequence returns the sequence of the last fact on key, 0 when there was none.
func (t *Table[T]) Sequence(key string) uint64 {
	if r, ok := t.rows[key]; ok {
		return r.Sequence
	}
	return t.dropped[key]
}

// Keys returns the keys of all records that are or were there, in an unspecified order.
func (t *Table[T]) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range t.rows {
			if !yield(key) {
				return
			}
		}
		for key := range t.dropped {
			if !yield(key) {
				return
			}
		}
	}
}

// Put stores the record at key, as of a fact.
func (t *Table[T]) Put(key string, value T, sequence uint64) {
	delete(t.dropped, key)
	if r, ok := t.rows[key]; ok {
		r.Value, r.Sequence = value, sequence
		return
	}
	t.rows[key] = &Row[T]{sequence, value}
}

// Drop removes the record at key, as of a fact.
func (t *Table[T]) Drop(key string, sequence uint64) {
	delete(t.rows, key)
	t.dropped[key] = sequence
}

// Forget removes the record at key and its sequence, for keys that are never used again.
func (t *Table[T]) Forget(key string) {
	delete(t.rows, key)
	delete(t.dropped, key)
}

// Touch records the sequence of a fact on key that changed nothing else.
func (t *Table[T]) Touch(key string, sequence uint64) {
	if r, ok := t.rows[key]; ok {
		r.Sequence = sequence
		return
	}
	t.dropped[key] = sequence
}

// Len returns the number of records.
func (t *Table[T]) Len() int { return len(t.rows) }

// All returns every record, in an unspecified order.
func (t *Table[T]) All() func(yield func(string, T) bool) {
	return func(yield func(string, T) bool) {
		for k, r := range t.rows {
			if !yield(k, r.Value) {
				return
			}
		}
	}
}

// Stored is the interface of a table to snapshots. Its name is the noun that keys it, or a name that is not
// a noun.
type Stored interface {
	Name() string
	Touch(key string, sequence uint64)
	record() protoreflect.MessageDescriptor
	save(emit func(*viewv1.Row) error) error
	load(*viewv1.Row) error
	inspect(after string, limit int) (inspected, error)
}

// Name returns the table's name.
func (t *Table[T]) Name() string { return t.name }

// record returns the descriptor of the table's records.
func (t *Table[T]) record() protoreflect.MessageDescriptor {
	var zero T
	return zero.ProtoReflect().Descriptor()
}

// save emits every row, sorted by key; a key without a record has an empty value and its sequence.
func (t *Table[T]) save(emit func(*viewv1.Row) error) error {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(t.rows)), maps.Keys(t.dropped))
	slices.Sort(keys)
	row := &viewv1.Row{Table: t.name}
	for _, k := range keys {
		row.Key, row.Sequence, row.Value = k, t.Sequence(k), row.Value[:0]
		if r, ok := t.rows[k]; ok {
			var err error
			// One byte before the record tells an empty record from none.
			row.Value, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(row.Value, 1), r.Value)
			if err != nil {
				return err
			}
		}
		if err := emit(row); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table[T]) load(row *viewv1.Row) error {
	if len(row.Value) == 0 {
		t.dropped[row.Key] = row.Sequence
		return nil
	}
	var zero T
	v := zero.ProtoReflect().New().Interface().(T)
	if err := proto.Unmarshal(row.Value[1:], v); err != nil {
		return err
	}
	if t.share != nil {
		t.share(row.Key, v)
	}
	t.rows[row.Key] = &Row[T]{row.Sequence, v}
	return nil
}
