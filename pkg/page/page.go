// Package page cuts lists into parts that fit into one answer.
//
// Guarantees:
//
//  1. The rows of a part have at most Bytes, and there are at most as many as the request allows.
//  2. A row that is larger than a part is left out, with its id and its size, and the list goes on after it. So one
//     large row never breaks a list for all.
package page

import (
	"iter"

	"google.golang.org/protobuf/proto"

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
