package server

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func scanCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	q := &serverv1.Scan{}
	c := &cobra.Command{
		Use:     "scan SERVER",
		Example: "  garrison server scan web-1",
		Short:   "Have a server report what runs there and is not Garrison's.",
		Args:    cli.Exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			on := &intentv1.Selector{Servers: a}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on, Scan: q}}}
			order := watch.Order{Verb: topology.VerbRefresh, Intent: ask}
			if err := work.Publish(c.Context(), env, w, order); err != nil || w.DryRun {
				return err
			}
			env.Say("to read the list: garrison server candidates %s", a[0])
			return nil
		},
	}
	w.Add(c, false)
	c.Flags().BoolVar(&q.All, "all", false, "also the distribution's base set, and processes that listen on nothing")
	cli.NamesVar(c.Flags(), &q.Detectors, "detector", cli.Name("detector"), "only these `DETECTORS`")
	return c
}

func candidatesCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	q := &registryv1.ListCandidatesRequest{}
	c := &cobra.Command{
		Use:     "candidates SERVER",
		Example: "  garrison server candidates web-1 --listening",
		Short:   "List what the last scan of a server found, for garrison instance adopt.",
		Args:    cli.Exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			q.Server = a[0]
			var last *registryv1.ListCandidatesResponse
			err := cli.List(c.Context(), env, page, display.Candidates,
				func(ctx context.Context, p *apiv1.Page) (*registryv1.ListCandidatesResponse, error) {
					q.Page = p
					r, err := cli.Call[*registryv1.ListCandidatesResponse](ctx, env, q)
					if p.GetCursor() == "" {
						last = r
					}
					return r, err
				})
			if err != nil {
				return err
			}
			for _, d := range last.GetDetections() {
				if d.GetMore() > 0 {
					env.Say("%s found %d more than the report lists", d.GetDetector(), d.GetMore())
				}
				if d.GetReason() != "" {
					env.Say("%s: %s", d.GetDetector(), d.GetReason())
				}
			}
			return nil
		},
	}
	page.Add(c, 0)
	cli.TextVar(c.Flags(), &q.Detector, "detector", cli.Name("detector"), "only what this `DETECTOR` found")
	c.Flags().BoolVar(&q.Listening, "listening", false, "only what listens on a socket")
	cli.TextVar(c.Flags(), &q.Name, "name", cli.NotEmpty("name"), "only names that match this `PATTERN`, such as 'ng*'")
	return c
}
