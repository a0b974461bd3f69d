package fleet

import (
	"cmp"
	"context"
	"maps"
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// partRows is how many differences one request asks for.
const partRows = 1000

// Compare compares everything that a request asks for and lists the first differences, at most limit of them; 0 means
// all. The others are counted, so that the counts are always whole.
func Compare(
	ctx context.Context, env *cli.Env, q *registryv1.CheckFleetRequest, limit int,
) (*registryv1.CheckFleetResponse, error) {
	whole := &registryv1.CheckFleetResponse{}
	causes, drift := map[string]uint32{}, map[string]*registryv1.EnvironmentDrift{}
	for cursor := ""; ; {
		rows := partRows
		if limit > 0 {
			rows = min(rows, limit-len(whole.Differences))
		}
		q.Page = &apiv1.Page{Cursor: cursor, Limit: uint32(max(rows, 1))}
		q.CountOnly = q.CountOnly || rows <= 0
		r, err := cli.Call[*registryv1.CheckFleetResponse](ctx, env, q)
		if err != nil {
			return nil, err
		}
		whole.Differences = append(whole.Differences, r.GetDifferences()...)
		whole.Servers, whole.Agents = whole.Servers+r.GetServers(), whole.Agents+r.GetAgents()
		for _, c := range r.GetCauses() {
			causes[c.GetCause()] += c.GetCount()
		}
		for _, d := range r.GetDrift() {
			drift[d.GetEnvironment()] = d
		}
		whole.PresenceHeld = r.GetPresenceHeld()
		again := r.GetNextCursor() == cursor // guards against a service that repeats a cursor
		if cursor = r.GetNextCursor(); cursor == "" || again {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(drift)) {
		whole.Drift = append(whole.Drift, drift[name])
	}
	for cause, n := range causes {
		whole.Causes = append(whole.Causes, &registryv1.CauseCount{Cause: cause, Count: n})
	}
	slices.SortFunc(whole.Causes, func(a, b *registryv1.CauseCount) int {
		return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetCause(), b.GetCause()))
	})
	return whole, nil
}

// Differing returns how many differences there are.
func Differing(r *registryv1.CheckFleetResponse) (n int) {
	for _, c := range r.GetCauses() {
		n += int(c.GetCount())
	}
	return n
}
