package fleet

import (
	"context"
	"maps"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/selection"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// labelsRead is how many servers are looked at for labels that they have.
const labelsRead = 100

// NearestTerm returns the term that a selector of no server most likely means, or "", also when it cannot ask.
func NearestTerm(ctx context.Context, env *cli.Env, on *intentv1.Selector) string {
	q := &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: labelsRead}}
	r, _ := cli.Call[*registryv1.ListServersResponse](ctx, env, q)
	var labels []string
	for _, s := range r.GetServers() {
		labels = slices.AppendSeq(labels, maps.Keys(s.GetLabels()))
	}
	return selection.Nearest(on, labels)
}
