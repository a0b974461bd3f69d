package operator

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Applications group agents and environments group servers; both have a name and little else.

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
	return group("app", "Named groups of agents", s.appCreateCommand(), s.appListCommand(), &cobra.Command{
		Use: "delete NAME", Short: "Delete an application without agents", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := call[*registryv1.DeleteApplicationResponse](c.Context(), s, "DeleteApplication", &registryv1.DeleteApplicationRequest{Name: a[0]})
			return s.deleted("application", a[0], err)
		},
	})
}

func (s *session) appCreateCommand() *cobra.Command {
	var metadata []string
	n := &applicationv1.Application{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an application", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			n.Name = a[0]
			if n.Metadata, err = parseLabels("--metadata", metadata); err != nil {
				return err
			}
			r, err := call[*registryv1.CreateApplicationResponse](c.Context(), s, "CreateApplication", &registryv1.CreateApplicationRequest{Application: n})
			if err != nil {
				return err
			}
			return changed(s, applicationListing, r.GetApplication(), "application %s created", a[0])
		},
	}
	c.Flags().StringVar(&n.Description, "description", "", "what it is, in one sentence")
	c.Flags().StringArrayVar(&metadata, "metadata", nil, "a value that its agents share, `NAME=VALUE`; may be said again")
	return c
}

func (s *session) appListCommand() *cobra.Command {
	var page pageFlags
	c := &cobra.Command{
		Use: "list", Short: "List applications", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, page, applicationListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListApplicationsResponse, error) {
				return call[*registryv1.ListApplicationsResponse](ctx, s, "ListApplications", &registryv1.ListApplicationsRequest{Page: p})
			})
		},
	}
	page.add(c, 0)
	return c
}

type environment = *environmentv1.Environment

var environmentListing = listing[environment]{
	name: func(e environment) string { return e.GetName() },
	columns: []column[environment]{
		{title: "NAME", value: func(_ view, e environment) string { return e.GetName() }},
		{title: "CHANNEL", value: func(_ view, e environment) string { return e.GetChannel() }},
		{title: "DESCRIPTION", value: func(_ view, e environment) string { return e.GetDescription() }},
		{title: "CREATED", wide: true, value: func(_ view, e environment) string { return stamp(e.GetCreatedAt()) }},
	},
}

func (s *session) envCommands() *cobra.Command {
	return group("env", "Named groups of servers", s.envCreateCommand(), s.envListCommand(), &cobra.Command{
		Use: "delete NAME", Short: "Delete an environment without servers", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := call[*registryv1.DeleteEnvironmentResponse](c.Context(), s, "DeleteEnvironment", &registryv1.DeleteEnvironmentRequest{Name: a[0]})
			return s.deleted("environment", a[0], err)
		},
	})
}

func (s *session) envCreateCommand() *cobra.Command {
	n := &environmentv1.Environment{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create an environment", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			n.Name = a[0]
			r, err := call[*registryv1.CreateEnvironmentResponse](c.Context(), s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{Environment: n})
			if err != nil {
				return err
			}
			return changed(s, environmentListing, r.GetEnvironment(), "environment %s created", a[0])
		},
	}
	c.Flags().StringVar(&n.Description, "description", "", "what it is, in one sentence")
	c.Flags().StringVar(&n.Channel, "channel", "", "the `CHANNEL` from which versions are taken when none is named")
	return c
}

func (s *session) envListCommand() *cobra.Command {
	var page pageFlags
	c := &cobra.Command{
		Use: "list", Short: "List environments", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, page, environmentListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListEnvironmentsResponse, error) {
				return call[*registryv1.ListEnvironmentsResponse](ctx, s, "ListEnvironments", &registryv1.ListEnvironmentsRequest{Page: p})
			})
		},
	}
	page.add(c, 0)
	return c
}
