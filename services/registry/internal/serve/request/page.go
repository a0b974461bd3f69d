package request

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/page"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	usualPage = 100
	largePage = 1000
)

// PageLimit returns how many rows a page may have, or refuses too many.
func PageLimit(p *apiv1.Page) (int, error) {
	switch n := p.GetLimit(); {
	case n == 0:
		return usualPage, nil
	case n > largePage:
		return 0, Invalid(code.Invalid, "a page of %d rows; %d are the most", n, largePage)
	default:
		return int(n), nil
	}
}

// The limits of a count.
const (
	mostFields  = 4
	usualGroups = 100
	mostGroups  = 1000
)

// CountBy checks by which fields rows are counted, and returns their names and the number of groups to return.
func CountBy(fields []string, top uint32, p *apiv1.Page, ofInstances bool) (by []string, groups int, err error) {
	if len(fields) > mostFields {
		return nil, 0, Invalid(code.Invalid, "counts by %d fields; %d are the most", len(fields), mostFields).
			Try("--count-by with fewer fields")
	}
	if top > mostGroups {
		return nil, 0, Invalid(code.Invalid, "%d groups; %d are the most", top, mostGroups).Try("a smaller --top")
	}
	if p != nil {
		return nil, 0, Invalid(code.Invalid, "a count has no pages").Try("the filter without its page")
	}
	for _, field := range fields {
		name, ok := view.FieldName(field, ofInstances)
		if !ok {
			known := slices.Collect(view.FieldNames(ofInstances))
			return nil, 0, Invalid(code.Invalid, "no field %q to count by (known: %s, label.NAME)", field,
				strings.Join(known, ", ")).Near(nearest.Name(field, slices.Values(known))).Try("--count-by FIELD,FIELD")
		}
		if slices.Contains(by, name) {
			return nil, 0, Invalid(code.Invalid, "counts by %s twice", name).Try("--count-by with each field once")
		}
		by = append(by, name)
	}
	return by, int(cmp.Or(top, usualGroups)), nil
}

// Only leaves out the rows that do not match.
func Only[T any](rows iter.Seq2[string, T], match func(T) bool) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for key, row := range rows {
			if match(row) && !yield(key, row) {
				return
			}
		}
	}
}

// PlanPage adds the plans and one part of their targets to an answer. The cursor is the
// agent and the server of the last target.
func PlanPage(resp *registryv1.PlanIntentResponse, plans []intent.Planned, q *registryv1.PlanIntentRequest, limit int) {
	agent, server, _ := strings.Cut(q.Page.GetCursor(), "/")
	size := 0
	for _, p := range plans {
		resp.Plans = append(resp.Plans, p.Plan)
		after := ""
		switch {
		case p.Agent < agent || resp.NextCursor != "":
			continue
		case p.Agent == agent:
			after = server
		}
		p.Targets(after, q.Effects, func(t *intentv1.Target) bool {
			bytes := proto.Size(t)
			if len(resp.Targets) == limit || size > 0 && size+bytes > page.Bytes {
				last := resp.Targets[len(resp.Targets)-1]
				resp.NextCursor = last.Agent + "/" + last.ServerId
				return false
			}
			resp.Targets = append(resp.Targets, t)
			size += bytes
			return true
		})
	}
}
