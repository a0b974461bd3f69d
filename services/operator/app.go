package operator

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

type application = *applicationv1.Application

var applicationListing = listing[application]{
	name: func(a application) string { return a.GetName() },
	columns: []column[application]{
		{title: "NAME", value: func(_ view, a application) string { return a.GetName() }},
		{title: "DESCRIPTION", value: func(_ view, a application) string { return a.GetDescription() }},
		{title: "METADATA", value: func(_ view, a application) string { return pairs(a.GetMetadata()) }},
		{title: "CREATED", wide: true, value: func(_ view, a application) string { return stamp(a.GetCreatedAt()) }},
	},
}

func (s *session) appCommands() *cobra.Command {
	ask := func(ctx context.Context, p *apiv1.Page) (*registryv1.ListApplicationsResponse, error) {
		return call[*registryv1.ListApplicationsResponse](ctx, s, "ListApplications", &registryv1.ListApplicationsRequest{Page: p})
	}
	return keptCommands(s, kept[application]{
		word: "application", command: "app", short: "Named groups of agents", without: "agents", whose: "its agents", listing: applicationListing,
		blank:       func(name string) application { return &applicationv1.Application{Name: name} },
		setMetadata: func(a application, m map[string]string) { a.Metadata = m },
		flags: func(f *pflag.FlagSet, said *edits[application], _ bool) {
			editVar(f, said, "description", "what it is, in one sentence", readText(anyText), func(a application, v string) { a.Description = v })
		},
		all: func(ctx context.Context) ([]application, error) {
			r, err := collect(ctx, pageFlags{}, ask)
			return r.GetApplications(), err
		},
		list: func(ctx context.Context, p pageFlags) error { return list(ctx, s, p, applicationListing, ask) },
		create: func(ctx context.Context, a application) (application, error) {
			r, err := call[*registryv1.CreateApplicationResponse](ctx, s, "CreateApplication", &registryv1.CreateApplicationRequest{Application: a})
			return r.GetApplication(), err
		},
		change: func(ctx context.Context, a application) (application, error) {
			r, err := call[*registryv1.ChangeApplicationResponse](ctx, s, "ChangeApplication", &registryv1.ChangeApplicationRequest{Application: a})
			return r.GetApplication(), err
		},
		remove: func(ctx context.Context, name string) error {
			_, err := call[*registryv1.DeleteApplicationResponse](ctx, s, "DeleteApplication", &registryv1.DeleteApplicationRequest{Name: name})
			return err
		},
	})
}
