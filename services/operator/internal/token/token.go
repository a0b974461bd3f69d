// Package token is the command token: pooled enrolment tokens, with each of which many servers join.
package token

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type token = *tokenv1.Token

var listing = output.Listing[token]{
	Name: token.GetName,
	Columns: []output.Column[token]{
		output.Col("NAME", token.GetName),
		output.Col("STATE", func(t token) string { return output.Word(t.GetState()) }),
		output.Col("USED", func(t token) string { return fmt.Sprintf("%d/%d", t.GetUsed(), t.GetUses()) }),
		output.Col("EXPIRES", func(t token) string { return output.Stamp(t.GetExpiresAt()) }),
		output.Col("ENV", token.GetEnvironment),
		output.Col("LABELS", func(t token) string { return output.Pairs(t.GetLabels()) }),
		output.Col("FROM", func(t token) string { return strings.Join(t.GetFromAddresses(), ",") }),
		output.Wide("CELL", token.GetCell),
		output.Wide("NAMES", func(t token) string { return output.Word(t.GetNameFrom()) }),
		output.Wide("CREATED", func(t token) string { return output.Stamp(t.GetCreatedAt()) }),
		output.Wide("BY", token.GetCreatedBy),
		output.Wide("LAST-USED", func(t token) string { return output.Stamp(t.GetLastUsedAt()) }),
		output.Wide("REVOKED", func(t token) string { return output.Stamp(t.GetRevokedAt()) }),
		output.Wide("REVOKED-BY", token.GetRevokedBy),
		output.Wide("REASON", token.GetReason),
	},
}

// Commands returns the command token with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("token", "Manage enrolment tokens with each of which many servers join.",
		createCommand(env), listCommand(env), showCommand(env), revokeCommand(env))
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison token list",
		Short:   "List tokens for many servers.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.List(c.Context(), env, page, listing, func(ctx context.Context,
				p *apiv1.Page) (*registryv1.ListTokensResponse, error) {
				return cli.Call[*registryv1.ListTokensResponse](ctx, env, &registryv1.ListTokensRequest{Page: p})
			})
		},
	}
	page.Add(c, 0)
	return c
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Example: "  garrison token show rack-a",
		Short:   "Show a token, without its secret, and the servers that joined with it.",
		Args:    cli.Exactly("NAME"), PreRunE: cli.Prints(env, listing),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := cli.Call[*registryv1.ListTokensResponse](c.Context(), env,
				&registryv1.ListTokensRequest{Name: a[0]})
			if err != nil {
				return err
			}
			all, err := serversOf(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			var names []string
			for _, s := range all {
				names = append(names, s.GetName())
			}
			v := env.Output.View()
			v.Wide = true
			return output.ShowOne(env.Output, v, listing, r.GetTokens()[0],
				[2]string{"SERVERS", strings.Join(names, "\n")})
		},
	}
}
