package registry

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

const (
	usualPage = 100
	largePage = 1000
	// pageBytes bounds an answer well below the bus's largest message.
	pageBytes = 512 << 10
)

func pageLimit(p *apiv1.Page) (int, error) {
	switch n := p.GetLimit(); {
	case n == 0:
		return usualPage, nil
	case n > largePage:
		return 0, invalid("BAD_PAGE", fmt.Sprintf("a page of %d rows; %d are the most", n, largePage))
	default:
		return int(n), nil
	}
}

// page takes the rows of one page, copied, and gives where the next one starts. It must
// run inside Read; rows are in the order of their keys.
func page[T proto.Message](rows iter.Seq2[string, T], limit int) (out []T, next string) {
	last, size := "", 0
	for key, row := range rows {
		if len(out) == limit || size > pageBytes {
			return out, last
		}
		out, last = append(out, proto.CloneOf(row)), key
		size += proto.Size(row)
	}
	return out, ""
}

// only leaves out the rows that do not match.
func only[T any](rows iter.Seq2[string, T], match func(T) bool) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for key, row := range rows {
			if match(row) && !yield(key, row) {
				return
			}
		}
	}
}
