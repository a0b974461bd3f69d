// Package app builds the commands of garrison app.
package app

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/record"
)

type application = *applicationv1.Application

var listing = output.Listing[application]{
	Name: func(a application) string { return a.GetName() },
	Columns: append([]output.Column[application]{
		output.Col("NAME", application.GetName),
		output.Col("DESCRIPTION", application.GetDescription),
		output.Col("METADATA", func(a application) string { return output.Pairs(a.GetMetadata()) }),
		output.Wide("CREATED", func(a application) string { return output.Stamp(a.GetCreatedAt()) }),
	}, record.LastChange[application]()...),
}

// Commands returns the command app with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	ask := func(ctx context.Context, p *apiv1.Page) (*registryv1.ListApplicationsResponse, error) {
		return cli.Call[*registryv1.ListApplicationsResponse](ctx, env,
			&registryv1.ListApplicationsRequest{Page: p})
	}
	return record.Commands(env, record.Noun[application]{
		Word:        "application",
		Unknown:     code.UnknownApplication,
		Command:     "app",
		Short:       "Group agents into applications.",
		Without:     "agents",
		Whose:       "its agents",
		Listing:     listing,
		Blank:       func(name string) application { return &applicationv1.Application{Name: name} },
		SetMetadata: func(a application, m map[string]string) { a.Metadata = m },
		Flags: func(f *pflag.FlagSet, said *record.Edits[application], _ bool) {
			record.EditVar(f, said, "description", "a description, one `SENTENCE`", cli.ReadText(cli.AnyText),
				func(a application, v string) { a.Description = v })
		},
		All: func(ctx context.Context) ([]application, error) {
			r, err := cli.Collect(ctx, cli.PageFlags{}, ask)
			return r.GetApplications(), err
		},
		List: func(ctx context.Context, p cli.PageFlags) error { return cli.List(ctx, env, p, listing, ask) },
		Create: func(ctx context.Context, a application) (application, error) {
			r, err := cli.Call[*registryv1.CreateApplicationResponse](ctx, env,
				&registryv1.CreateApplicationRequest{Application: a})
			return r.GetApplication(), err
		},
		On: func(string) string { return "all" },
		Change: func(ctx context.Context, a application) (application, []*registryv1.Outdated, error) {
			r, err := cli.Call[*registryv1.ChangeApplicationResponse](ctx, env,
				&registryv1.ChangeApplicationRequest{Application: a})
			return r.GetApplication(), r.GetOutdated(), err
		},
		Remove: func(ctx context.Context, name string, revision uint64) error {
			_, err := cli.Call[*registryv1.DeleteApplicationResponse](ctx, env,
				&registryv1.DeleteApplicationRequest{Name: name, IfRevision: revision})
			return err
		},
	})
}
