package fold

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Canonical returns the view's canonical encoding and its position: the rows of all
// tables, sorted, each as a length-delimited viewv1.Row. Equal views have equal bytes.
func (r *Reader) Canonical() (position uint64, encoding []byte, err error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var b bytes.Buffer
	if err := saveTables(&b, r.view); err != nil {
		return 0, nil, err
	}
	return r.position, b.Bytes(), nil
}

// CanonicalOf returns the canonical encoding of a view that no Follower changes at the moment.
func CanonicalOf(v View) ([]byte, error) {
	var b bytes.Buffer
	err := saveTables(&b, v)
	return b.Bytes(), err
}

// LoadCanonical reads into an empty view what CanonicalOf gave.
func LoadCanonical(v View, encoding []byte) error {
	if err := loadTables(bytes.NewReader(encoding), v); err != nil {
		return err
	}
	v.Loaded()
	return nil
}

func saveTables(w io.Writer, v View) error {
	for _, t := range v.Tables() {
		if err := t.save(func(r *viewv1.Row) error { return writeRow(w, r) }); err != nil {
			return fmt.Errorf("encode table %s: %w", t.Name(), err)
		}
	}
	return nil
}

func writeRow(w io.Writer, r *viewv1.Row) error {
	_, err := protodelim.MarshalOptions{MarshalOptions: proto.MarshalOptions{Deterministic: true}}.MarshalTo(w, r)
	return err
}

func loadTables(r protodelim.Reader, v View) error {
	tables := map[string]Stored{}
	for _, t := range v.Tables() {
		tables[t.Name()] = t
	}
	row := &viewv1.Row{}
	for {
		err := protodelim.UnmarshalFrom(r, row)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read row: %w", err)
		}
		t, ok := tables[row.Table]
		if !ok {
			return fault.New(fault.Invalid, "row of unknown table %q", row.Table)
		}
		if err := t.load(row); err != nil {
			return fmt.Errorf("read row %s of %s: %w", row.Key, row.Table, err)
		}
	}
}

// RebuildTo folds the ledger from its start up to a position into view, in this
// process and without snapshots; 0 means up to its present end. It returns the position.
func RebuildTo(ctx context.Context, conn *bus.Conn, view View, o Options, position uint64) (uint64, error) {
	o.Store, o.OnFacts = "", nil
	f := New(conn, view, o)
	if err := f.begin(ctx); err != nil {
		return 0, err
	}
	if position == 0 {
		position = f.target
	}
	if position > f.target {
		return 0, fault.New(fault.NotFound, "position %d is behind the ledger's end, %d", position, f.target)
	}
	if position == 0 {
		return 0, nil
	}
	return position, f.rebuild(ctx, 1, position)
}

var errThere = errors.New("there")

// rebuild folds the facts from one sequence to another.
func (f *Follower) rebuild(outer context.Context, from, position uint64) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	p := newPipeline(ctx, cancel, f.hears, func(c chunk) error {
		if err := f.apply(c); err != nil || c.last < position {
			return err
		}
		return errThere
	})
	err := f.source.replay(ctx, from, func(msgs []bus.Message) error {
		beyond := func(m bus.Message) bool { return m.Sequence > position }
		if i := slices.IndexFunc(msgs, beyond); i >= 0 {
			msgs = msgs[:i]
		}
		if len(msgs) == 0 {
			return nil // everything is on its way; the pipeline ends the replay
		}
		return p.put(msgs)
	})
	err = errors.Join(err, p.drain())
	if errors.Is(err, errThere) {
		return nil
	}
	return errors.Join(err, outer.Err())
}

// Digest returns the sha256 of an encoding.
func Digest(encoding []byte) []byte {
	d := sha256.Sum256(encoding)
	return d[:]
}
