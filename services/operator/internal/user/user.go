// Package user is the command user: people, and programs that act for them, who may connect.
package user

import (
	"context"

	"github.com/spf13/cobra"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

type user = *userv1.User

var listing = output.Listing[user]{
	Name: user.GetName,
	Columns: []output.Column[user]{
		output.Col("NAME", user.GetName),
		output.Col("ROLE", func(u user) string { return output.Word(u.GetRole()) }),
		output.Col("STATE", func(u user) string { return output.Word(u.GetState()) }),
		output.Col("CREATED", func(u user) string { return output.Stamp(u.GetCreatedAt()) }),
		output.Col("EXPIRES", expires),
		output.Col("KEY", func(u user) string { return shortKey(newest(u)) }),
		output.Wide("BY", user.GetCreatedBy),
		output.Wide("RENEWED", func(u user) string { return output.Stamp(u.GetRenewedAt()) }),
		output.Wide("REVOKED", func(u user) string { return output.Stamp(u.GetRevokedAt()) }),
		output.Wide("REASON", user.GetReason),
	},
}

func newest(u user) *userv1.Key {
	keys := u.GetKeys()
	if len(keys) == 0 {
		return nil
	}
	return keys[len(keys)-1]
}

func expires(u user) string {
	k := newest(u)
	if k != nil && k.GetExpiresAt() == nil {
		return "never"
	}
	return output.Stamp(k.GetExpiresAt())
}

// shortKey returns enough of a public key to tell it from others.
func shortKey(k *userv1.Key) string {
	if len(k.GetPublicKey()) < 12 {
		return k.GetPublicKey()
	}
	return k.GetPublicKey()[:12]
}

// Commands returns the command user with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("user", "Manage users: people and programs that may connect.",
		createCommand(env), listCommand(env), revokeCommand(env))
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	c := &cobra.Command{
		Use:     "list",
		Example: "  garrison user list",
		Short:   "List users.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return cli.List(c.Context(), env, page, listing, func(ctx context.Context,
				p *apiv1.Page) (*accessv1.ListUsersResponse, error) {
				return cli.Call[*accessv1.ListUsersResponse](ctx, env, &accessv1.ListUsersRequest{Page: p})
			})
		},
	}
	page.Add(c, 0)
	return c
}

func revokeCommand(env *cli.Env) *cobra.Command {
	q := &accessv1.RevokeUserRequest{}
	c := &cobra.Command{
		SuggestFor: []string{"delete", "remove", "disable", "lock"},
		Use:        "revoke NAME",
		Example:    "  garrison user revoke ann -m \"left the team\"",
		Short:      "Shut a user out at once, with every key of that name.",
		Args:       cli.Exactly("NAME"), PreRunE: cli.Prints(env, listing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			r, err := cli.Call[*accessv1.RevokeUserResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			if !r.GetShutOut() {
				env.Say("the bus has not confirmed it yet; access keeps trying, and logs why")
			}
			return cli.Changed(env, listing, r.GetUser(), "user %s revoked", a[0])
		},
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}
