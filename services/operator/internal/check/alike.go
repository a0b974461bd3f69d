package check

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/display"
)

// alikeFrom is how many servers that differ in the same way share a row.
const alikeFrom = 6

// way is how a server differs.
type way struct{ agent, cause, wanted, observed string }

func wayOf(d display.Difference) way {
	return way{d.GetAgent(), d.GetCause(), d.GetWanted(), d.GetObserved()}
}

// alike has servers that differ in the same way share the row of the first of them, which names it and counts the
// others, with the earliest time. It reports whether some do.
func alike(all []display.Difference) (rows []display.Difference, share bool) {
	counts := map[way]int{}
	for _, d := range all {
		counts[wayOf(d)]++
	}
	shared := map[way]display.Difference{}
	for _, d := range all {
		n := counts[wayOf(d)]
		if n < alikeFrom {
			rows = append(rows, d)
			continue
		}
		first := shared[wayOf(d)]
		if first == nil {
			first = proto.CloneOf(d)
			first.ServerName = fmt.Sprintf("%s and %d more", d.GetServerName(), n-1)
			shared[wayOf(d)], rows, share = first, append(rows, first), true
		}
		if since := d.GetSince(); since != nil && since.AsTime().Before(first.GetSince().AsTime()) {
			first.Since = since
		}
	}
	return rows, share
}
