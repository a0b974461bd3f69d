package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
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
		{title: "METADATA", wide: true, value: func(_ view, a agent) string { return pairs(a.GetMetadata()) }},
		{title: "CREATED", wide: true, value: func(_ view, a agent) string { return stamp(a.GetCreatedAt()) }},
		{title: "CHANGED", wide: true, value: func(_ view, a agent) string { return stamp(a.GetChangedAt()) }},
	},
}

func agentFlags(f *pflag.FlagSet, said *edits[agent], update bool) {
	editVar(f, said, "app", "the `APPLICATION` it belongs to; empty means none", readText(orNone(aName("application"))), func(a agent, v string) { a.Application = v })
	editVar(f, said, "tier", "its `TIER`; lower ones are changed first on a server", readCount, func(a agent, v uint32) { a.Tier = v })
	var needs []string
	namesVar(f, &needs, "needs", orNone(aName("agent")), "`AGENTS` that must be on the server first; empty means none")
	*said = append(*said, func(a agent) {
		if f.Changed("needs") {
			a.Dependencies = needs
		}
	})
	editVar(f, said, "description", "what it is for, in one sentence", readText(anyText), func(a agent, v string) { a.Description = v })
	if !update { // it never changes
		all := slices.DeleteFunc(words(agentv1.Kind(0).Descriptor()), func(k string) bool { return k == "external" }) // refused until it exists
		kinds := strings.Join(all, ", ")
		editVar(f, said, "kind", "its `KIND`: "+kinds+"; without it daemon", parseWord[agentv1.Kind], func(a agent, v agentv1.Kind) { a.Kind = v })
	}
}

func (s *session) agentCommands() *cobra.Command {
	ask := func(ctx context.Context, p *apiv1.Page) (*registryv1.ListAgentsResponse, error) {
		return call[*registryv1.ListAgentsResponse](ctx, s, "ListAgents", &registryv1.ListAgentsRequest{Page: p})
	}
	return keptCommands(s, kept[agent]{
		word: "agent", command: "agent", short: "What belongs on servers", without: "instances", whose: "its instances", listing: agentListing,
		blank:       func(name string) agent { return &agentv1.Agent{Name: name, Kind: agentv1.Kind_KIND_DAEMON} },
		setMetadata: func(a agent, m map[string]string) { a.Metadata = m },
		flags:       agentFlags,
		all: func(ctx context.Context) ([]agent, error) {
			r, err := collect(ctx, pageFlags{}, ask)
			return r.GetAgents(), err
		},
		list: func(ctx context.Context, p pageFlags) error { return list(ctx, s, p, agentListing, ask) },
		create: func(ctx context.Context, a agent) (agent, error) {
			r, err := call[*registryv1.CreateAgentResponse](ctx, s, "CreateAgent", &registryv1.CreateAgentRequest{Agent: a})
			return r.GetAgent(), err
		},
		change: func(ctx context.Context, a agent) (agent, error) {
			r, err := call[*registryv1.ChangeAgentResponse](ctx, s, "ChangeAgent", &registryv1.ChangeAgentRequest{Agent: a})
			return r.GetAgent(), err
		},
		remove: func(ctx context.Context, name string) error {
			_, err := call[*registryv1.DeleteAgentResponse](ctx, s, "DeleteAgent", &registryv1.DeleteAgentRequest{Name: name})
			return err
		},
	})
}
