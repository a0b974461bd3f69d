// Package page cuts lists into parts that fit into one answer.
//
// Guarantees:
//
//  1. The rows of a part have at most Bytes, and there are at most as many as the request allows.
//  2. A row that is larger than a part is left out, with its id and its size, and the list goes on after it. So one
//     large row never breaks a list for all.
package page

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// Bytes bounds the rows of one part, well below the largest message of the bus.
const Bytes = 512 << 10

// Part is one part of a list.
type Part[T any] struct {
	Rows    []T
	Next    string           // the key after which the next part starts; empty at the end
	LeftOut []*apiv1.LeftOut // the rows that are larger than a part
}

// Take takes one part of rows, which are in the order of their keys. It keeps the rows; use Cloned for records of a
// view.
func Take[T proto.Message](rows iter.Seq2[string, T], limit int) Part[T] {
	var p Part[T]
	last, sum := "", 0
	for key, row := range rows {
		size := proto.Size(row)
		fits := size <= Bytes
		if len(p.Rows)+len(p.LeftOut) == limit || fits && sum+size > Bytes {
			p.Next = last
			return p
		}
		if last = key; fits {
			p.Rows, sum = append(p.Rows, row), sum+size
		} else {
			p.LeftOut = append(p.LeftOut, &apiv1.LeftOut{Id: idOf(key, row), SizeBytes: uint64(size)})
		}
	}
	return p
}

// idOf returns the id of a row, or else its key.
func idOf(key string, row proto.Message) string {
	if r, ok := row.(interface{ GetId() string }); ok {
		return r.GetId()
	}
	return key
}

// Cloned returns copies of rows.
func Cloned[T proto.Message](rows iter.Seq2[string, T]) iter.Seq2[string, T] {
	return Map(rows, func(_ string, row T) T { return proto.CloneOf(row) })
}

// Map returns another row for each row.
func Map[T, R any](rows iter.Seq2[string, T], to func(string, T) R) iter.Seq2[string, R] {
	return func(yield func(string, R) bool) {
		for key, row := range rows {
			if !yield(key, to(key, row)) {
				return
			}
		}
	}
}

// Request is a request for a part of a list.
type Request interface {
	proto.Message
	GetPage() *apiv1.Page
}

// digestBytes is how much of a filter's digest a cursor holds. It tells filters apart that a caller mixed up; a forged
// one only hurts its sender.
const digestBytes = 6

// After returns the key after which the requested part starts; empty for the first part. A cursor of another list, or
// of the same list with another filter, is refused with INVALID: it would skip rows.
func After(q Request) (key string, err error) {
	cursor := q.GetPage().GetCursor()
	if cursor == "" {
		return "", nil
	}
	digest, key, ok := strings.Cut(cursor, "-")
	if !ok || key == "" || digest != digestOf(q) {
		return "", fault.Refusef(fault.Invalid, code.Invalid,
			"the cursor %.120q does not come from this list with this filter", cursor).
			Try("the list without --cursor")
	}
	return key, nil
}

// Cursor returns the cursor of the part after a key; empty for an empty key, at the end of the list.
func Cursor(q Request, key string) string {
	if key == "" {
		return ""
	}
	return digestOf(q) + "-" + key
}

// digestOf returns the digest of a request without its page.
func digestOf(q Request) string {
	m := proto.Clone(q).ProtoReflect()
	if f := m.Descriptor().Fields().ByName("page"); f != nil {
		m.Clear(f)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(data, m.Descriptor().FullName()...))
	return hex.EncodeToString(sum[:digestBytes])
}

// RowsField returns the field with the rows of a list response: the last list before its cursor; earlier ones describe
// the list as a whole. In a response that names a noun, it is the list of messages of that name. It returns nil for
// another message.
func RowsField(m protoreflect.Message) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	cursor, noun := fields.ByName("next_cursor"), fields.ByName("noun")
	if cursor == nil {
		return nil
	}
	for i := cursor.Index() - 1; i >= 0; i-- {
		f := fields.Get(i)
		if f.IsList() && (noun == nil || strings.ToLower(string(f.Message().Name())) == m.Get(noun).String()) {
			return f
		}
	}
	return nil
}
