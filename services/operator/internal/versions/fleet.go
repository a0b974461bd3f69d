package versions

import (
	"cmp"
	"context"
	"slices"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// versionTally counts equal rows.
type versionTally map[row]*row

// add counts one row, in its state since a time; zero means that the time is unknown.
func (t versionTally) add(like row, since time.Time) {
	r, ok := t[like]
	if !ok {
		r = new(row)
		*r = like
		t[like] = r
	}
	r.Count++
	if !since.IsZero() && (r.since.IsZero() || since.Before(r.since)) {
		r.since, r.Since = since, since.UTC().Format(time.RFC3339)
	}
}

// rows returns the counted rows, executors first, sorted by name and version.
func (t versionTally) rows() []row {
	var out []row
	for _, r := range t {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b row) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Version, b.Version), cmp.Compare(a.Wanted, b.Wanted))
	})
	return out
}

// fleetVersions counts executors and agents by the version that runs and the one that is wanted.
func fleetVersions(ctx context.Context, env *cli.Env) ([]row, error) {
	kinds, err := cli.Collect(
		ctx,
		cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListAgentsResponse, error) {
			return cli.Call[*registryv1.ListAgentsResponse](ctx, env, &registryv1.ListAgentsRequest{Page: p})
		},
	)
	if err != nil {
		return nil, err
	}
	instances, err := fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{WithExecutors: true})
	return fleetRows(kinds.GetAgents(), instances), err
}

// fleetRows counts instances by the version that runs and the one that is wanted. Of an executor that was installed on
// its machine, it is not known since when it runs.
func fleetRows(agents []*agentv1.Agent, instances []display.Instance) []row {
	self := map[string]bool{}
	for _, a := range agents {
		self[a.GetName()] = a.GetKind() == agentv1.Kind_KIND_SELF
	}
	t := versionTally{}
	for _, r := range instances {
		i := r.GetInstance()
		row := row{
			Kind:    kindAgent,
			Name:    i.GetAgent(),
			Version: i.GetObserved().GetVersion(),
			Wanted:  i.GetWanted().GetVersion(),
		}
		since := i.GetSince().AsTime()
		if r.GetByHand() {
			since = time.Time{}
		}
		if self[i.GetAgent()] || r.GetByHand() {
			row.Kind = kindExecutor
		}
		t.add(row, since)
	}
	return t.rows()
}
