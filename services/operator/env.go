package operator

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

type environment = *environmentv1.Environment

var environmentListing = listing[environment]{
	name: func(e environment) string { return e.GetName() },
	columns: []column[environment]{
		{title: "NAME", value: func(_ view, e environment) string { return e.GetName() }},
		{title: "CHANNEL", value: func(_ view, e environment) string { return e.GetChannel() }},
		{title: "METADATA", value: func(_ view, e environment) string { return pairs(e.GetMetadata()) }},
		{title: "DESCRIPTION", value: func(_ view, e environment) string { return e.GetDescription() }},
		{title: "CREATED", wide: true, value: func(_ view, e environment) string { return stamp(e.GetCreatedAt()) }},
	},
}

func environmentFlags(f *pflag.FlagSet, said *edits[environment], update bool) {
	editVar(f, said, "description", "what it is, in one sentence", readText(anyText), func(e environment, v string) { e.Description = v })
	named, help := aName("channel"), "the `CHANNEL` from which versions are taken when none is named"
	if update {
		named, help = orNone(named), help+"; empty means the default one"
	}
	editVar(f, said, "channel", help, readText(named), func(e environment, v string) { e.Channel = v })
}

func (s *session) envCommands() *cobra.Command {
	ask := func(ctx context.Context, p *apiv1.Page) (*registryv1.ListEnvironmentsResponse, error) {
		return call[*registryv1.ListEnvironmentsResponse](ctx, s, "ListEnvironments", &registryv1.ListEnvironmentsRequest{Page: p})
	}
	return keptCommands(s, kept[environment]{
		word: "environment", command: "env", short: "Named groups of servers", without: "servers", whose: "every agent on its servers", listing: environmentListing,
		blank:       func(name string) environment { return &environmentv1.Environment{Name: name} },
		setMetadata: func(e environment, m map[string]string) { e.Metadata = m },
		flags:       environmentFlags,
		all: func(ctx context.Context) ([]environment, error) {
			r, err := collect(ctx, pageFlags{}, ask)
			return r.GetEnvironments(), err
		},
		list: func(ctx context.Context, p pageFlags) error { return list(ctx, s, p, environmentListing, ask) },
		create: func(ctx context.Context, e environment) (environment, error) {
			r, err := call[*registryv1.CreateEnvironmentResponse](ctx, s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{Environment: e})
			return r.GetEnvironment(), err
		},
		change: func(ctx context.Context, e environment) (environment, error) {
			r, err := call[*registryv1.ChangeEnvironmentResponse](ctx, s, "ChangeEnvironment", &registryv1.ChangeEnvironmentRequest{Environment: e})
			return r.GetEnvironment(), err
		},
		remove: func(ctx context.Context, name string) error {
			_, err := call[*registryv1.DeleteEnvironmentResponse](ctx, s, "DeleteEnvironment", &registryv1.DeleteEnvironmentRequest{Name: name})
			return err
		},
	})
}
