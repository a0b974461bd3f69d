// Package token is the command token: pooled enrolment tokens. Many servers join with each of them.
package token

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

type token = *tokenv1.Token

var table = listing.Listing[token]{
	Name: token.GetName,
	Columns: []listing.Column[token]{
		listing.Col("NAME", token.GetName),
		listing.Col("STATE", func(t token) string { return listing.Word(t.GetState()) }),
		listing.Col("USED", func(t token) string { return fmt.Sprintf("%d/%d", t.GetUsed(), t.GetUses()) }),
		listing.Col("EXPIRES", func(t token) string { return listing.Stamp(t.GetExpiresAt()) }),
		listing.Col("ENV", token.GetEnvironment),
		listing.Col("LABELS", func(t token) string { return listing.Pairs(t.GetLabels()) }),
		listing.Col("FROM", func(t token) string { return strings.Join(t.GetFromAddresses(), ",") }),
		listing.Wide("CELL", token.GetCell),
		listing.Wide("NAMES", func(t token) string { return listing.Word(t.GetNameFrom()) }),
		listing.Wide("CREATED", func(t token) string { return listing.Stamp(t.GetCreatedAt()) }),
		listing.Wide("BY", token.GetCreatedBy),
		listing.Wide("LAST-USED", func(t token) string { return listing.Stamp(t.GetLastUsedAt()) }),
		listing.Wide("REVOKED", func(t token) string { return listing.Stamp(t.GetRevokedAt()) }),
		listing.Wide("REVOKED-BY", token.GetRevokedBy),
		listing.Wide("REASON", token.GetReason),
	},
}

// Commands returns the command token with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	listCommand := cli.ListCommand[*registryv1.ListTokensResponse](
		env, "token", "List tokens for many servers.", table, &registryv1.ListTokensRequest{},
	)
	return cli.Group("token", "Manage enrolment tokens for many servers each.",
		createCommand(env), listCommand, revokeCommand(env))
}

func revokeCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.RevokeTokenRequest{}
	var quarantine bool
	c := &cobra.Command{
		SuggestFor: []string{"delete", "remove", "disable"},
		Use:        "revoke NAME",
		Example:    "  garrison token revoke rack-a -m \"the image leaked\" --quarantine",
		Short:      "Make a token void at once; servers that joined with it stay.",
		Args:       cli.Exactly("NAME"), PreRunE: cli.Prints(env, table),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			before, err := cli.All[*registryv1.ListTokensResponse](c.Context(), env, &registryv1.ListTokensRequest{})
			if err != nil {
				return err
			}
			r, err := cli.Call[*registryv1.RevokeTokenResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			if err := cli.Changed(env, table, r.GetToken(), "token %s %s", a[0],
				cli.Outcome(revoked(before.GetTokens(), a[0]), "revoked")); err != nil {
				return err
			}
			all, err := serversOf(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			env.Say("%s joined with it: garrison server list --token %s", listing.Plural(len(all), "server"), a[0])
			if !quarantine || len(all) == 0 {
				return nil
			}
			question := fmt.Sprintf("Quarantine %s?", listing.Plural(len(all), "server"))
			yes, _ := c.Flags().GetBool("yes")
			if err := env.Confirm(c.Context(), yes, question); err != nil {
				return err
			}
			return quarantineAll(c.Context(), env, all, "joined with the revoked token "+a[0])
		},
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	c.Flags().BoolVar(&quarantine, "quarantine", false, "also shut out every server that joined with it, until "+
		"garrison server release")
	return c
}

func revoked(all []token, name string) bool {
	return slices.ContainsFunc(all, func(t token) bool {
		return t.GetName() == name && t.GetState() == tokenv1.State_STATE_REVOKED
	})
}

// quarantineAll shuts servers out. It goes on after a failure, and fails at the end.
func quarantineAll(ctx context.Context, env *cli.Env, all []*serverv1.Server, reason string) error {
	failed := 0
	for _, s := range all {
		q := &registryv1.QuarantineServerRequest{Server: s.GetId(), Reason: reason}
		if _, err := cli.Call[*registryv1.QuarantineServerResponse](ctx, env, q); err != nil {
			env.Say("server %s is not quarantined: %s", s.GetName(), cli.LineOf(err))
			failed++
		}
	}
	env.Say("%s quarantined", listing.Plural(len(all)-failed, "server"))
	if failed > 0 {
		return cli.Ended(cli.ExitPartly)
	}
	return nil
}

// serversOf returns the servers that joined with a token and are not dead.
func serversOf(ctx context.Context, env *cli.Env, name string) ([]*serverv1.Server, error) {
	r, err := cli.All[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{Token: name})
	return r.GetServers(), err
}
