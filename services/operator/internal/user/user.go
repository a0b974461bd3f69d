// Package user is the command user: people, and programs that act for them, who may connect.
package user

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
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
	listCommand := cli.ListCommand[*accessv1.ListUsersResponse](
		env, "user", "List users.", listing, &accessv1.ListUsersRequest{},
	)
	return cli.Group("user", "Manage users: people and programs that may connect.",
		createCommand(env), listCommand, revokeCommand(env))
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

const (
	day = 24 * time.Hour
	// longest is the longest validity that access accepts.
	longest = 400 * day
)

func createCommand(env *cli.Env) *cobra.Command {
	q := &accessv1.CreateUserRequest{Role: userv1.Role_ROLE_VIEWER}
	valid := trust.PersonValidFor
	var file string
	c := &cobra.Command{
		SuggestFor: []string{"add", "invite", "new"},
		Use:        "create NAME",
		Short:      "Create a user and write the context with its credentials to a file.",
		Long: `Create a user, a person or a program, and write the context with its credentials to a file of mode 0600.
The private key is made here and is only in that file. Hand it over, and have it saved with garrison context add. Each
command of the user renews the credentials in its file when a third of their life is left.`,
		Example: "  garrison user create ann --role operator --file ann.json\n" +
			"  garrison user create ci --role operator --valid 30d",
		Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, listing),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name, q.ValidFor = a[0], durationpb.New(valid)
			if file == "" {
				file = a[0] + ".json"
			}
			return create(c.Context(), env, q, file)
		},
	}
	cli.WordVar(c.Flags(), &q.Role, "role", "the `ROLE`")
	c.Flags().Var(cli.ValueOf(&valid, readDays, showDays), "valid",
		"validity of the credentials, a `DURATION` such as 90d or 12h; at most 400d")
	cli.TextVar(c.Flags(), &file, "file", cli.NotEmpty("file"),
		"write the context to this `FILE`, NAME.json by default")
	return c
}

// create makes the key here, so that the private half is in the file alone.
func create(ctx context.Context, env *cli.Env, q *accessv1.CreateUserRequest, file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage("%s exists; pass another --file", output.Quote(file))
	}
	if err := cli.CheckTarget(file); err != nil {
		return err
	}
	own, err := client.FindContext(env.ContextName, env.Getenv)
	if err != nil {
		return cli.Exit{Code: cli.ExitUsage, Err: err}
	}
	public, seed, err := trust.NewUserKey()
	if err != nil {
		return err
	}
	q.PublicKey = public
	r, err := cli.Call[*accessv1.CreateUserResponse](ctx, env, q)
	if err != nil {
		return err
	}
	who := trust.Context{
		URL: own.URL, Actor: q.GetName(), Role: output.Word(q.GetRole()), JWT: r.GetJwt(), Seed: string(seed),
		CA: own.CA, AllowPlain: own.AllowPlain,
	}
	if err := who.Write(file); err != nil {
		return fmt.Errorf("user %s was created, but its context cannot be written; revoke it and try again: %w",
			q.GetName(), err)
	}
	return cli.Changed(env, listing, r.GetUser(), "user %s created; its context is in %s", q.GetName(), file)
}

// readDays reads a duration, also in days.
func readDays(text string) (time.Duration, error) {
	var d time.Duration
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * day
	} else {
		d, err = time.ParseDuration(text)
	}
	switch {
	case err != nil || d <= 0:
		return 0, fmt.Errorf("%q is not a positive duration such as 90d or 12h", text)
	case d > longest:
		return 0, fmt.Errorf("%q is too long; the maximum is 400d", text)
	}
	return d, nil
}

func showDays(d time.Duration) string {
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
