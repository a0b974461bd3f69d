package change

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// candidates are the flags that list what the last scan of a server found.
type candidates struct {
	list bool
	page cli.PageFlags
	q    registryv1.ListCandidatesRequest
}

func (f *candidates) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.list, "list", false, "list what the last scan of the server found; change nothing")
	f.page.Add(c, 0)
	cli.TextVar(c.Flags(), &f.q.Detector, "detector", cli.Name("detector"), "with --list: only what this `DETECTOR` "+
		"found")
	c.Flags().BoolVar(&f.q.Listening, "listening", false, "with --list: only what listens on a socket")
	cli.TextVar(c.Flags(), &f.q.Name, "name", cli.NotEmpty("name"), "with --list: only names that match this "+
		"`PATTERN`, such as 'ng*'")
}

// check refuses the flags of a list without one.
func (f *candidates) check(c *cobra.Command) error {
	for _, name := range []string{"detector", "listening", "name", "limit", "cursor"} {
		if !f.list && c.Flags().Changed(name) {
			return cli.Usage("--%s requires --list", name)
		}
	}
	return nil
}

// print prints the list, and what the detectors could not list.
func (f *candidates) print(ctx context.Context, env *cli.Env, server string) error {
	f.q.Server = server
	var first *registryv1.ListCandidatesResponse
	err := cli.List(ctx, env, f.page, display.Candidates,
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListCandidatesResponse, error) {
			f.q.Page = p
			r, err := cli.Call[*registryv1.ListCandidatesResponse](ctx, env, &f.q)
			if p.GetCursor() == "" {
				first = r
			}
			return r, err
		})
	if err != nil {
		return err
	}
	for _, d := range first.GetDetections() {
		if d.GetMore() > 0 {
			env.Say("%s found %d more than the report lists", d.GetDetector(), d.GetMore())
		}
		if d.GetReason() != "" {
			env.Say("%s: %s", d.GetDetector(), d.GetReason())
		}
	}
	return nil
}
