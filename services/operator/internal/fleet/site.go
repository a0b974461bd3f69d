package fleet

import (
	"context"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// SayNewSite reports that no server has a site yet, with the nearest site that has servers. A site is no object that
// could be missing: its first server makes it, and a typing error would do so too. A failure to count says nothing.
func SayNewSite(ctx context.Context, env *cli.Env, site string) {
	if site == "" || site == topology.DefaultCell {
		return
	}
	r, err := cli.Call[*registryv1.CountServersResponse](ctx, env,
		&registryv1.CountServersRequest{By: []string{"cell"}, Top: 1000})
	var sites []string
	for _, g := range r.GetCounts().GetGroups() {
		sites = append(sites, g.GetValues()...)
	}
	if err != nil || r.GetCounts().GetOtherGroups() > 0 || slices.Contains(sites, site) {
		return
	}
	if near := nearest.Name(site, slices.Values(sites)); near != "" {
		env.Say("no server is at site %s yet. Nearest: %s", site, near)
		return
	}
	env.Say("no server is at site %s yet", site)
}
