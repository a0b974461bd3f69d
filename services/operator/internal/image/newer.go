package image

import (
	"context"
	"fmt"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// newer is a row: an agent on the servers of one environment and platform.
type newer = *registryv1.Available

var newerListing = listing.Listing[newer]{
	Name: newer.GetAgent,
	Columns: []listing.Column[newer]{
		listing.Col("AGENT", newer.GetAgent),
		listing.Col("ENV", newer.GetEnvironment),
		listing.Col("PLATFORM", func(a newer) string { return display.Platform(a.GetPlatform()) }),
		listing.Col("CHANNEL", newer.GetChannel),
		listing.Col("WANTED", wantedText),
		listing.Col("NEWEST", newer.GetVersion),
		{Title: "IMAGE", Value: func(v listing.View, a newer) string { return listing.ShortID(v, a.GetImageId()) }},
		{Title: "BUILT", Value: func(v listing.View, a newer) string { return listing.Age(v, a.GetBuiltAt()) }},
		listing.Col("BEHIND", func(a newer) string {
			return fmt.Sprintf("%d of %d", a.GetBehind(), a.GetInstances())
		}).Numeric(),
		listing.Col("REASON", func(a newer) string { return display.Reason(a.GetRefusal()) }),
	},
}

// wantedText formats the wanted versions with the number of their instances, as in 1.0.0 ×12, 1.1.0 ×3.
func wantedText(a newer) string {
	var out []string
	for _, v := range a.GetVersions() {
		out = append(out, fmt.Sprintf("%s ×%d", v.GetVersion(), v.GetInstances()))
	}
	return strings.Join(out, ", ")
}

// listNewer lists the images that are newer than what servers have.
func listNewer(
	ctx context.Context, env *cli.Env, page cli.PageFlags, q *registryv1.ListAvailableRequest,
) error {
	rows := 0
	err := cli.List(ctx, env, page, newerListing,
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListAvailableResponse, error) {
			q.Page = p
			r, err := cli.Call[*registryv1.ListAvailableResponse](ctx, env, q)
			rows += len(r.GetAvailable())
			return r, err
		})
	if err == nil && rows == 0 {
		env.Say("nothing is newer than what servers are wanted to have; with --all, every agent is listed")
	}
	return err
}
