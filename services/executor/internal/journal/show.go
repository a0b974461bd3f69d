package journal

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Line is one record of a journal, for a person.
type Line struct {
	Record string          `json:"record"` // the kind of record: meta, instances, changes, outbox, and so on
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"value"`
}

// Show calls f with each record of the journal at path, secrets included, and changes nothing. An error is NotFound
// without a journal, Conflict while an executor holds it, and ErrDamaged when it cannot be read.
func Show(path string, f func(Line) error) error {
	if layout.Missing(path) {
		return fault.New(fault.NotFound, "no journal at %s", path)
	}
	return Look(path, func(tx *Tx) error {
		return tx.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				line := Line{Record: string(name), Key: showKey(k)}
				var err error
				if line.Value, err = showValue(line.Record, v); err != nil {
					return fmt.Errorf("%w: %s %s: %w", ErrDamaged, name, line.Key, err)
				}
				return f(line)
			})
		})
	})
}

// showKey returns a key as text; eight bytes that are no text are a number.
func showKey(k []byte) string {
	if len(k) == 8 && k[0] < ' ' {
		return fmt.Sprint(binary.BigEndian.Uint64(k))
	}
	return strings.ToValidUTF8(string(k), "?")
}

// showValue returns a value as JSON.
func showValue(record string, v []byte) (json.RawMessage, error) {
	switch {
	case record == string(bucketOutbox):
		r := &reportv1.Report{}
		return showMessage(v, r)
	case record == string(bucketEnded):
		var e struct {
			Ended
			Outcome json.RawMessage `json:"outcome"`
		}
		if err := json.Unmarshal(v, &e.Ended); err != nil {
			return nil, err
		}
		var err error
		if e.Outcome, err = showMessage(e.Ended.Outcome, &taskv1.Outcome{}); err != nil {
			return nil, err
		}
		return json.Marshal(e)
	case record != string(bucketMeta) && json.Valid(v):
		return v, nil
	case len(v) == 8 && v[0] < ' ':
		return json.Marshal(binary.BigEndian.Uint64(v))
	case utf8.Valid(v):
		return json.Marshal(string(v))
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(v))
}

func showMessage(data []byte, m proto.Message) (json.RawMessage, error) {
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return protojson.Marshal(m)
}

// Masked returns the record with the name of each secret in place of its value, also in its other texts, such as the
// output of an agent. A value that is shorter than secret.Scrub takes is replaced only where it is kept as a secret.
func (l Line) Masked() (Line, error) {
	d := json.NewDecoder(bytes.NewReader(l.Value))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return Line{}, fmt.Errorf("mask %s %s: %w", l.Record, l.Key, err)
	}
	var found []map[string]string // two versions may have different values of one name
	value = maskSecrets(value, &found)
	if len(found) == 0 {
		return l, nil
	}
	for _, secrets := range found {
		value = scrub(value, secrets)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return Line{}, fmt.Errorf("mask %s %s: %w", l.Record, l.Key, err)
	}
	l.Value = bytes.TrimSpace(out.Bytes())
	return l, nil
}

// maskSecrets replaces the values of each object named secrets, and adds them to found.
func maskSecrets(value any, found *[]map[string]string) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = maskSecrets(v[i], found)
		}
	case map[string]any:
		for key, part := range v {
			if o, ok := part.(map[string]any); ok && key == "secrets" {
				*found = append(*found, masked(o))
				continue
			}
			v[key] = maskSecrets(part, found)
		}
	}
	return value
}

// masked replaces the values of an object of secrets and returns them.
func masked(o map[string]any) map[string]string {
	values := map[string]string{}
	for name, value := range maps.Clone(o) {
		values[name] = fmt.Sprint(value)
		o[name] = "<secret " + name + ">"
	}
	return values
}

// scrub takes the values of secrets out of each text.
func scrub(value any, secrets map[string]string) any {
	switch v := value.(type) {
	case string:
		return secret.Scrub(v, secrets)
	case []any:
		for i := range v {
			v[i] = scrub(v[i], secrets)
		}
	case map[string]any:
		for key, part := range v {
			v[key] = scrub(part, secrets)
		}
	}
	return value
}
