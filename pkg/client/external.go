package client

import (
	"context"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Bounds of one report about external instances.
const (
	partFound = 500
	partBytes = 256 << 10
)

// ReportExternal reports instances of an agent of kind external whose reporter the client is. With complete, the list
// is all there is: instances that are recorded and not listed are gone. A long list is sent in parts, by name. The
// answer sums them up; LeftOut lists instances that were not recorded, and why. After an error, some parts may have
// been recorded; the same list can be sent again.
func (c *Client) ReportExternal(
	ctx context.Context, agent string, found []*externalv1.Found, complete bool,
) (*registryv1.ReportExternalResponse, error) {
	sum := &registryv1.ReportExternalResponse{}
	for q := range externalParts(agent, found, complete) {
		r, err := Call[*registryv1.ReportExternalResponse](ctx, c, q)
		if err != nil {
			return sum, err
		}
		sum.Changed += r.Changed
		sum.Confirmed += r.Confirmed
		sum.Gone += r.Gone
		sum.LeftOut = append(sum.LeftOut, r.LeftOut...)
	}
	return sum, nil
}

// externalParts cuts a list into requests whose ranges cover all names without a gap. Rows of one name stay together,
// so that the registry sees a name that is listed twice.
func externalParts(agent string, found []*externalv1.Found, complete bool) iter.Seq[*registryv1.ReportExternalRequest] {
	rows := slices.Clone(found)
	slices.SortStableFunc(rows, func(a, b *externalv1.Found) int { return strings.Compare(a.GetName(), b.GetName()) })
	return func(yield func(*registryv1.ReportExternalRequest) bool) {
		from := ""
		for first := true; first || len(rows) > 0; first = false {
			n, size := 0, 0
			for n < len(rows) && n < partFound && size < partBytes {
				size += proto.Size(rows[n])
				n++
			}
			for n > 1 && n < len(rows) && rows[n-1].GetName() == rows[n].GetName() {
				n--
			}
			q := &registryv1.ReportExternalRequest{Agent: agent, Found: rows[:n]}
			rows = rows[n:]
			if complete {
				q.Complete = &registryv1.Range{From: from}
				if len(rows) > 0 {
					from = rows[0].GetName()
					q.Complete.Before = from
				}
			}
			if !yield(q) {
				return
			}
		}
	}
}
