// Package foldtest notices that a view folds facts otherwise than before.
//
// Golden folds a fixed history of every kind of fact that a view hears, and compares what
// comes of it with a golden file. Snapshots of an older program are used only while
// fold.FormatDigest is the same, so a change of the fold alone must raise the view's layout:
// the test fails until it does.
package foldtest

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// facts is how many facts the fixed history has.
const facts = 20_000

// RestsAreHeard fails when a service decides from facts that its view does not fold.
func RestsAreHeard(t *testing.T, service string, nouns []ledger.Noun) {
	t.Helper()
	for _, k := range ledger.Kinds {
		for _, on := range k.Noun.RestsOn() {
			if k.Noun.Writer() == service && !slices.Contains(nouns, on) {
				t.Errorf("%s decides about the noun %s from %s, which its view does not fold", service, k.Noun, on)
			}
		}
	}
}

// Golden compares the fold of the fixed history with a golden file. With -update it writes
// the file anew, unless the fold changed and its digest did not.
func Golden(t *testing.T, v fold.View, layout uint32, nouns []ledger.Noun, file string) {
	t.Helper()
	digest := hex.EncodeToString(fold.FormatDigest(v, layout, nouns))
	sum := sha256.New()
	for _, f := range history(nouns) {
		fmt.Fprintf(sum, "%d %v\n", f.Sequence, v.Apply(f))
	}
	encoding, err := fold.CanonicalOf(v)
	if err != nil {
		t.Fatal(err)
	}
	sum.Write(encoding)
	have := fmt.Sprintf("fold %s\nview %x\n", digest, sum.Sum(nil))
	kept, _ := os.ReadFile(filepath.Clean(file)) // without one there is nothing to compare with
	switch {
	case string(kept) == have:
	case strings.HasPrefix(string(kept), "fold "+digest):
		t.Error("the same facts are folded to another view, and snapshots of the old one would be used: " +
			"raise Layout, then run the test with -update")
	case updating():
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the layout, the tables or the contract changed; run the test with -update")
	}
}

// updating reports whether the test was run with -update, which its package may define.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// history returns the same facts at each call: random kinds, keys from a few, random bodies.
func history(nouns []ledger.Noun) []ledger.Fact {
	m := &maker{rand.New(rand.NewPCG(1, 2))}
	var kinds []ledger.Kind
	for _, k := range ledger.Kinds {
		if nouns == nil || slices.Contains(nouns, k.Noun) {
			kinds = append(kinds, k)
		}
	}
	out := make([]ledger.Fact, facts)
	for i := range out {
		k := kinds[m.IntN(len(kinds))]
		body := k.Body.ProtoReflect().New()
		m.fill(body, 4)
		out[i] = ledger.Fact{
			Noun: k.Noun, Key: m.key(k.Noun), Body: body.Interface(), Sequence: uint64(i + 1),
			ID: m.id(), At: start.Add(time.Duration(i) * time.Second),
			Source: k.Noun.Writer(), Actor: m.word(), Request: m.id(), Cause: "clock",
		}
	}
	return out
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maker makes values of a few kinds, so that facts often speak of the same things.
type maker struct{ *rand.Rand }

func (m *maker) word() string { return string(rune('a' + m.IntN(4))) }

func (m *maker) id() string {
	return uuid.NewSHA1(uuid.Nil, []byte{byte(m.IntN(6))}).String()
}

// key returns a key of the shape that the noun's have.
func (m *maker) key(n ledger.Noun) string {
	switch n {
	case ledger.Instance:
		return ledger.Key(m.id(), m.word())
	case ledger.Server, ledger.Task, ledger.Intent, ledger.Image:
		return m.id()
	}
	return m.word()
}

// fill sets most fields of a message, to a depth.
func (m *maker) fill(msg protoreflect.Message, depth int) {
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.IntN(8) == 0 || depth == 0 && f.Message() != nil {
			continue
		}
		switch {
		case f.IsMap():
			value := msg.Mutable(f).Map()
			for range m.IntN(3) {
				v := value.NewValue()
				if f.MapValue().Message() != nil {
					m.fill(v.Message(), depth-1)
				} else {
					v = m.scalar(f.MapValue())
				}
				value.Set(m.scalar(f.MapKey()).MapKey(), v)
			}
		case f.IsList():
			list := msg.Mutable(f).List()
			for range m.IntN(3) {
				if f.Message() != nil {
					v := list.NewElement()
					m.fill(v.Message(), depth-1)
					list.Append(v)
				} else {
					list.Append(m.scalar(f))
				}
			}
		case f.Message() != nil:
			m.fill(msg.Mutable(f).Message(), depth-1)
		default:
			msg.Set(f, m.scalar(f))
		}
	}
}

func (m *maker) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := m.IntN(5)
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n%2 == 0)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(m.IntN(values.Len())).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(m.word()))
	default:
		if m.IntN(2) == 0 {
			return protoreflect.ValueOfString(m.id())
		}
		return protoreflect.ValueOfString(m.word())
	}
}
