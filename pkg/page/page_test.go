package page_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/page"
)

// servers returns a row of each size, in bytes of its reason.
func servers(after string, sizes []int) iter.Seq2[string, *serverv1.Server] {
	return func(yield func(string, *serverv1.Server) bool) {
		for n, size := range sizes {
			id := fmt.Sprintf("%03d", n)
			if id > after && !yield(id, &serverv1.Server{Id: id, Reason: strings.Repeat("x", size)}) {
				return
			}
		}
	}
}

func TestAPartFitsIntoAnAnswerAndNoRowIsLost(t *testing.T) {
	const large = page.Bytes + 1
	const half = page.Bytes / 2
	sizes := []int{large, 1, 2, large, large, half, half, half, 3, page.Bytes - 20, large, 4}
	for _, limit := range []int{1, 2, 3, 100} {
		var rows, left []string
		for after, parts := "", 0; ; parts++ {
			p := page.Take(servers(after, sizes), limit)
			sum := 0
			for _, s := range p.Rows {
				rows, sum = append(rows, s.Id), sum+proto.Size(s)
			}
			for _, l := range p.LeftOut {
				left = append(left, l.Id)
			}
			if sum > page.Bytes || len(p.Rows)+len(p.LeftOut) > limit {
				t.Fatalf("limit %d: a part of %d rows, %d bytes", limit, len(p.Rows), sum)
			}
			if after = p.Next; after == "" {
				break
			}
			if parts > len(sizes) {
				t.Fatalf("limit %d: the list does not end", limit)
			}
		}
		if got := strings.Join(rows, " "); got != "001 002 005 006 007 008 009 011" {
			t.Errorf("limit %d: rows %s", limit, got)
		}
		if got := strings.Join(left, " "); got != "000 003 004 010" {
			t.Errorf("limit %d: left out %s", limit, got)
		}
	}
}
