// Package avail builds the command garrison avail.
package avail

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// newer is a row: an agent on the servers of one environment and platform.
type newer = *registryv1.Available

var listing = output.Listing[newer]{
	Name: newer.GetAgent,
	Columns: []output.Column[newer]{
		output.Col("AGENT", newer.GetAgent),
		output.Col("ENV", newer.GetEnvironment),
		output.Col("PLATFORM", func(a newer) string { return display.Platform(a.GetPlatform()) }),
		output.Col("CHANNEL", newer.GetChannel),
		output.Col("WANTED", wanted),
		output.Col("NEWEST", newer.GetVersion),
		{Title: "IMAGE", Value: func(v output.View, a newer) string { return output.ShortID(v, a.GetImageId()) }},
		{Title: "BUILT", Value: func(v output.View, a newer) string { return output.Age(v, a.GetBuiltAt()) }},
		output.Col("BEHIND", func(a newer) string {
			return fmt.Sprintf("%d of %d", a.GetBehind(), a.GetInstances())
		}).Numeric(),
		output.Col("REASON", func(a newer) string { return display.Reason(a.GetRefusal()) }),
	},
}

// wanted formats the wanted versions with the number of their instances, as in 1.0.0 ×12, 1.1.0 ×3.
func wanted(a newer) string {
	var out []string
	for _, v := range a.GetVersions() {
		out = append(out, fmt.Sprintf("%s ×%d", v.GetVersion(), v.GetInstances()))
	}
	return strings.Join(out, ", ")
}

// Command returns the command avail.
func Command(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	q := &registryv1.ListAvailableRequest{}
	c := &cobra.Command{
		Use:   "avail [AGENT]",
		Short: "List the images that are newer than what servers have.",
		Long: `List the images that are newer than what servers have. A row is an agent on the servers of one
environment and platform; NEWEST is the highest version in the channel of the environment, which garrison up AGENT
brings. BEHIND counts the instances that are wanted at a lower version. It changes nothing.`,
		Example:    "  garrison avail\n  garrison avail beacon --env prod\n  garrison avail --all -o json",
		Args:       cli.AtMost("AGENT"),
		SuggestFor: []string{"available", "outdated", "newer", "updates", "upgradable"},
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				q.Agent = a[0]
				if err := ident.CheckName("agent", q.Agent); err != nil {
					return cli.Usage("%v", err)
				}
			}
			rows := 0
			err := cli.List(c.Context(), env, page, listing,
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
		},
	}
	cli.TextVar(c.Flags(), &q.Environment, "env", cli.Name("environment"), "only on servers of this `ENVIRONMENT`")
	c.Flags().BoolVar(&q.All, "all", false, "also agents that have no newer image")
	page.Add(c, 0)
	return c
}
