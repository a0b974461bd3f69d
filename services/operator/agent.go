package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

type agent = *agentv1.Agent

var agentListing = listing[agent]{
	name: func(a agent) string { return a.GetName() },
	columns: []column[agent]{
		{title: "NAME", value: func(_ view, a agent) string { return a.GetName() }},
		{title: "KIND", value: func(_ view, a agent) string { return word(a.GetKind()) }},
		{title: "APP", value: func(_ view, a agent) string { return a.GetApplication() }},
		{title: "TIER", value: func(_ view, a agent) string { return fmt.Sprint(a.GetTier()) }},
		{title: "NEEDS", value: func(_ view, a agent) string { return strings.Join(a.GetDependencies(), ",") }},
		{title: "DESCRIPTION", value: func(_ view, a agent) string { return a.GetDescription() }},
		{title: "CREATED", wide: true, value: func(_ view, a agent) string { return stamp(a.GetCreatedAt()) }},
		{title: "CHANGED", wide: true, value: func(_ view, a agent) string { return stamp(a.GetChangedAt()) }},
	},
}

// agentFlags are what may be recorded about an agent.
type agentFlags struct {
	app, description string
	tier             uint32
	needs            []string
}

func (f *agentFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.app, "app", "", "the `APPLICATION` it belongs to")
	c.Flags().Uint32Var(&f.tier, "tier", 0, "lower tiers are changed first on a server")
	c.Flags().StringSliceVar(&f.needs, "needs", nil, "`AGENTS` that must be on the server first")
	c.Flags().StringVar(&f.description, "description", "", "what it is for, in one sentence")
}

// apply changes what was said and leaves the rest.
func (f *agentFlags) apply(c *cobra.Command, a agent) {
	if c.Flags().Changed("app") {
		a.Application = f.app
	}
	if c.Flags().Changed("tier") {
		a.Tier = f.tier
	}
	if c.Flags().Changed("needs") {
		a.Dependencies = f.needs
	}
	if c.Flags().Changed("description") {
		a.Description = f.description
	}
}

func (s *session) agentCommands() *cobra.Command {
	return group("agent", "What belongs on servers",
		s.agentCreateCommand(), s.agentListCommand(), s.agentShowCommand(), s.agentUpdateCommand(), s.agentDeleteCommand())
}

func (s *session) agentCreateCommand() *cobra.Command {
	var f agentFlags
	var kind string
	c := &cobra.Command{
		Use: "create NAME --kind KIND", Short: "Create an agent", Args: exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) (err error) {
			n := &agentv1.Agent{Name: a[0]}
			if n.Kind, err = parseWord[agentv1.Kind]("--kind", kind); err != nil {
				return err
			}
			f.apply(c, n)
			r, err := call[*registryv1.CreateAgentResponse](c.Context(), s, "CreateAgent", &registryv1.CreateAgentRequest{Agent: n})
			if err != nil {
				return err
			}
			return changed(s, agentListing, r.GetAgent(), "agent %s created", a[0])
		},
	}
	f.add(c)
	c.Flags().StringVar(&kind, "kind", "daemon", "its `KIND`: "+strings.Join(words(agentv1.Kind(0).Descriptor()), ", "))
	return c
}

func (s *session) agentListCommand() *cobra.Command {
	var page pageFlags
	c := &cobra.Command{
		Use: "list", Short: "List agents", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, page, agentListing, s.askAgents)
		},
	}
	page.add(c, 0)
	return c
}

func (s *session) askAgents(ctx context.Context, p *apiv1.Page) (*registryv1.ListAgentsResponse, error) {
	return call[*registryv1.ListAgentsResponse](ctx, s, "ListAgents", &registryv1.ListAgentsRequest{Page: p})
}

// findAgent finds an agent by name, and names the nearest when there is none.
func (s *session) findAgent(ctx context.Context, name string) (agent, error) {
	all, err := collect(ctx, pageFlags{}, s.askAgents)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, a := range all.GetAgents() {
		if a.GetName() == name {
			return a, nil
		}
		names = append(names, a.GetName())
	}
	return nil, refuse(fault.NotFound, &apiv1.Refusal{
		Code: "UNKNOWN_AGENT", Message: fmt.Sprintf("no agent %q (%d searched)", name, len(names)),
		Nearest: nearest(name, names), Try: "garrison agent list",
	})
}

func (s *session) agentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show AGENT", Short: "Show everything about an agent", Args: exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := s.findAgent(c.Context(), a[0])
			if err != nil {
				return err
			}
			return showOne(s, s.view(), agentListing, found)
		},
	}
}

func (s *session) agentUpdateCommand() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use: "update AGENT", Short: "Change what is recorded about an agent; what is not said stays", Args: exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := s.findAgent(c.Context(), a[0])
			if err != nil {
				return err
			}
			now := proto.CloneOf(found)
			f.apply(c, now)
			r, err := call[*registryv1.ChangeAgentResponse](c.Context(), s, "ChangeAgent", &registryv1.ChangeAgentRequest{Agent: now})
			if err != nil {
				return err
			}
			return changed(s, agentListing, r.GetAgent(), "agent %s changed", a[0])
		},
	}
	f.add(c)
	return c
}

func (s *session) agentDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete AGENT", Short: "Delete an agent without instances", Args: exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			_, err := call[*registryv1.DeleteAgentResponse](c.Context(), s, "DeleteAgent", &registryv1.DeleteAgentRequest{Name: a[0]})
			return s.deleted("agent", a[0], err)
		},
	}
}
