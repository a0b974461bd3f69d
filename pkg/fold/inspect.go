package fold

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	inspectUsual = 100  // how many rows of a table are listed without a limit
	inspectMost  = 1000 // the largest limit, since the fold waits while rows are encoded
)

// progress is the part "fold" of a debug state.
type progress struct {
	Position uint64              `json:"position"`
	Stored   time.Time           `json:"stored,omitzero"`
	Ready    bool                `json:"ready"`
	Unread   []*viewv1.FactCount `json:"unread,omitempty"`
	Unfit    []*viewv1.FactCount `json:"unfit,omitempty"`
}

// inspection is the part "view" of a debug state: rows of the view at one position.
type inspection struct {
	Position uint64      `json:"position"`
	Tables   []inspected `json:"tables"`
}

type inspected struct {
	Noun      string         `json:"noun"`
	Records   int            `json:"records"` // in the whole table
	Rows      []inspectedRow `json:"rows"`
	Truncated int            `json:"truncated"` // how many records follow the last row
}

type inspectedRow struct {
	Key      string          `json:"key"`
	Sequence uint64          `json:"sequence"`
	Record   json.RawMessage `json:"record"`
}

// Show adds the parts "fold" and "view" to a debug state. The view takes a query: noun selects a
// table, limit bounds the rows of each table (100, at most 1000), and after continues behind a key.
func (f *Follower) Show(s *debug.State) {
	s.Set("fold", func() any { return f.progress() })
	s.SetQuery("view", func(query url.Values) any {
		i, err := f.inspect(query)
		if err != nil {
			return err
		}
		return i
	})
}

func (f *Follower) progress() progress {
	f.mu.RLock()
	defer f.mu.RUnlock()
	p := progress{Position: f.position, Stored: f.stored, Unread: f.unread.list(), Unfit: f.unfit.list()}
	select {
	case <-f.ready:
		p.Ready = true
	default:
	}
	return p
}

func (r *Reader) inspect(query url.Values) (i inspection, err error) {
	limit := inspectUsual
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > inspectMost {
			return i, fault.New(fault.Invalid, "limit %q is not a whole number from 1 to %d", text, inspectMost)
		}
	}
	noun := query.Get("noun")
	r.mu.RLock()
	defer r.mu.RUnlock()
	i.Position = r.position
	var names []string
	for _, t := range r.view.Tables() {
		names = append(names, t.Name())
		if noun != "" && noun != t.Name() {
			continue
		}
		table, err := t.inspect(query.Get("after"), limit)
		if err != nil {
			return i, err
		}
		i.Tables = append(i.Tables, table)
	}
	if i.Tables == nil {
		return i, fault.New(fault.Invalid, "unknown noun %q (want %s)", noun, strings.Join(names, ", "))
	}
	return i, nil
}

// inspect lists the first records behind a key, sorted by key.
func (t *Table[T]) inspect(after string, limit int) (inspected, error) {
	out := inspected{Noun: t.name, Records: len(t.rows), Rows: []inspectedRow{}}
	keys, behind := t.keysAfter(after, limit)
	out.Truncated = behind - len(keys)
	for _, k := range keys {
		data, err := protojson.Marshal(t.rows[k].Value)
		if err != nil {
			return out, err
		}
		var record bytes.Buffer
		if err := json.Compact(&record, data); err != nil { // protojson varies its spacing
			return out, err
		}
		out.Rows = append(out.Rows, inspectedRow{k, t.rows[k].Sequence, record.Bytes()})
	}
	return out, nil
}

// keysAfter returns the first keys behind one, sorted, and how many keys are behind it. It sorts only
// what it returns, so that a large table does not hold up the fold.
func (t *Table[T]) keysAfter(after string, limit int) (keys []string, behind int) {
	for k := range t.rows {
		if k <= after && after != "" {
			continue
		}
		behind++
		if len(keys) == limit && k > keys[limit-1] {
			continue
		}
		at, _ := slices.BinarySearch(keys, k)
		keys = slices.Insert(keys, at, k)
		keys = keys[:min(len(keys), limit)]
	}
	return keys, behind
}
