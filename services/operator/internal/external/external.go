// Package external is the command external: instances that Garrison tracks and does not run, and the reports about
// them.
package external

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

type row = *registryv1.ExternalRow

var listing = output.Listing[row]{
	Name: func(r row) string { return r.GetExternal().GetAgent() + "/" + r.GetExternal().GetFound().GetName() },
	Columns: []output.Column[row]{
		output.Col("AGENT", func(r row) string { return r.GetExternal().GetAgent() }),
		output.Col("NAME", func(r row) string { return r.GetExternal().GetFound().GetName() }),
		output.Col("SERVER", row.GetServerName),
		output.Col("VERSION", func(r row) string { return r.GetExternal().GetFound().GetVersion() }),
		output.Col("WANTED", row.GetWanted),
		output.Col("HEALTH", func(r row) string { return output.Word(r.GetExternal().GetFound().GetHealth()) }),
		output.Since("SINCE", func(r row) *timestamppb.Timestamp { return r.GetExternal().GetSince() }),
		output.Since("CONFIRMED", func(r row) *timestamppb.Timestamp { return r.GetExternal().GetConfirmedAt() }),
		output.Col("REASON", reason),
		output.Wide("REPORTER", func(r row) string { return r.GetExternal().GetReporter() }),
		output.Wide("CHANGED", func(r row) string { return output.Stamp(r.GetExternal().GetChangedAt()) }),
		output.Wide("DIGEST", func(r row) string {
			return fmt.Sprintf("%.8x", r.GetExternal().GetFound().GetDigest())
		}),
		output.Wide("PROPERTIES", func(r row) string {
			return output.Pairs(r.GetExternal().GetFound().GetProperties())
		}),
	},
}

// reason returns why an instance needs attention.
func reason(r row) string {
	if r.GetStale() {
		return "stale: no report lists it"
	}
	if why := r.GetExternal().GetFound().GetReason(); why != "" || !wrong(r) {
		return why
	}
	return "another version is wanted"
}

// wrong reports whether an instance has another version than the wanted one.
func wrong(r row) bool {
	return r.GetWanted() != "" && r.GetWanted() != r.GetExternal().GetFound().GetVersion()
}

// Commands returns the command external with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("external", "Show and report instances that Garrison tracks and does not run.", listCommand(env),
		showCommand(env), wantCommand(env), reportCommand(env))
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var on selector.Flags
	q := &registryv1.ListExternalsRequest{}
	c := &cobra.Command{
		Use:     "list [AGENT]",
		Example: "  garrison external list vm --on env=prod\n  garrison external list --stale",
		Short:   "List external instances.", Args: cli.AtMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				q.Agent = a[0]
			}
			var err error
			if q.On, err = on.Filter(); err != nil {
				return err
			}
			return cli.List(c.Context(), env, page, listing,
				func(ctx context.Context, p *apiv1.Page) (*registryv1.ListExternalsResponse, error) {
					q.Page = p
					return cli.Call[*registryv1.ListExternalsResponse](ctx, env, q)
				})
		},
	}
	page.Add(c, 0)
	on.Add(c)
	cli.TextVar(c.Flags(), &q.Version, "version", cli.NotEmpty("version"), "only those of this `VERSION`")
	cli.WordVar(c.Flags(), &q.Health, "health", "only those in this `HEALTH`")
	c.Flags().BoolVar(&q.Stale, "stale", false, "only those that no report listed in time")
	return c
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show AGENT NAME",
		Example: "  garrison external show vm 54bd4c3f-2d5a-4b0e-9a55-4b0e6a4f2f8e",
		Short:   "Show all fields of an external instance.",
		Args:    cli.Exactly("AGENT", "NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := cli.Call[*registryv1.ListExternalsResponse](c.Context(), env,
				&registryv1.ListExternalsRequest{Agent: a[0], Name: a[1]})
			if err != nil {
				return err
			}
			if len(r.GetExternals()) == 0 {
				return cli.Refuse(fault.NotFound, &apiv1.Refusal{
					Code: code.NoInstances, Message: fmt.Sprintf("agent %q has no instance %q", a[0], a[1]),
					Try: "garrison external list " + a[0],
				})
			}
			x := r.GetExternals()[0]
			return output.ShowOne(env.Output, env.Output.View(), listing, x,
				[2]string{"PROPERTIES", output.Lines(x.GetExternal().GetFound().GetProperties())})
		},
	}
}
