// Package user is the command user: people, and programs that act for them, who may connect.
package user

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

type user = display.User

// Commands returns the command user with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	listCommand := cli.ListCommand[*accessv1.ListUsersResponse](
		env, "user", "List users.", display.Users, &accessv1.ListUsersRequest{},
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
		Args:       cli.Exactly("NAME"), PreRunE: cli.Prints(env, display.Users),
		RunE: func(c *cobra.Command, a []string) error {
			q.Name = a[0]
			all, err := cli.All[*accessv1.ListUsersResponse](c.Context(), env, &accessv1.ListUsersRequest{})
			if err != nil {
				return err
			}
			r, err := cli.Call[*accessv1.RevokeUserResponse](c.Context(), env, q)
			if err != nil {
				return shutOutSelf(c.Context(), env, a[0], err)
			}
			if !r.GetShutOut() {
				env.Say("the bus has not confirmed it yet; access keeps trying, and logs why")
			}
			same := slices.ContainsFunc(all.GetUsers(), func(u user) bool {
				return u.GetName() == a[0] && u.GetState() == userv1.State_STATE_REVOKED
			})
			return cli.Changed(env, display.Users, r.GetUser(), "user %s %s", a[0], cli.Outcome(same, "revoked"))
		},
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	c.Flags().BoolVar(&q.Force, "force", false, "also the last admin, after whom only garrisond makes another one")
	return c
}

// shutOutSelf returns the error of a revocation; none when the caller's own was carried out: a bus that ends a
// connection because its user is revoked sends no answer.
func shutOutSelf(ctx context.Context, env *cli.Env, name string, err error) error {
	c, e := env.Client(ctx)
	if e != nil || c.Actor() != name || fault.RefusalOf(err).GetCode() != code.LoginRefused {
		return err
	}
	env.Say("user %s revoked; it is the user of this context, which the bus no longer lets in", name)
	return nil
}

// longest is the longest validity that access accepts.
const longest = 400 * 24 * time.Hour

func createCommand(env *cli.Env) *cobra.Command {
	q := &accessv1.CreateUserRequest{Role: userv1.Role_ROLE_VIEWER}
	var valid time.Duration
	var file string
	c := &cobra.Command{
		SuggestFor: []string{"add", "invite", "new"},
		Use:        "create NAME",
		Short:      "Create a user and write the context with its credentials to a file.",
		Long: `Create a user, a person or a program, and write the context with its credentials to a file of mode 0600.
The private key is made here and is only in that file. Hand it over, and have it saved with garrison context add. Each
command of the user renews the credentials in its file when a third of their life is left. The files of an auditor are
for any NATS client: NAME.creds, and NAME-ca.pem with the CA of the bus. They are not renewed.`,
		Example: "  garrison user create ann --role operator --file ann.json\n" +
			"  garrison user create ci --role operator --valid 30d\n" +
			"  garrison user create siem --role auditor --valid 400d",
		Args: cli.Exactly("NAME"), PreRunE: cli.Prints(env, display.Users),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.Name("user")(a[0]); err != nil { // before a file is named after it
				return cli.Exit{Code: cli.ExitUsage, Err: err}
			}
			q.Name, q.ValidFor = a[0], durationpb.New(valid)
			if file == "" {
				file = a[0] + ending(q.Role)
			}
			return create(c.Context(), env, q, file)
		},
	}
	cli.WordVar(c.Flags(), &q.Role, "role", "the `ROLE`")
	cli.TimeVar(c.Flags(), &valid, "valid", trust.PersonValidFor, longest,
		"validity of the credentials, a `DURATION` such as 90d or 12h; at most 400d")
	cli.TextVar(c.Flags(), &file, "file", cli.NotEmpty("file"),
		"write the context to this `FILE`; default: NAME.json, of an auditor NAME.creds")
	return c
}

// write writes the file of a user, and returns what it holds. That of an auditor is for NATS clients, which take the CA
// of the bus from a file beside it.
func write(who trust.Context, file string) (what string, err error) {
	if topology.Role(who.Role) != topology.Auditor {
		return "its context is in " + file, who.Write(file)
	}
	if err := trust.WriteCredentials(file, who.JWT, []byte(who.Seed)); err != nil || who.CA == "" {
		return "its credentials are in " + file, err
	}
	ca := strings.TrimSuffix(file, ".creds") + "-ca.pem"
	return fmt.Sprintf("its credentials are in %s, and the CA of the bus in %s", file, ca),
		renameio.WriteFile(ca, []byte(who.CA), 0o600)
}

// ending returns the ending of the file of a user with a role.
func ending(role userv1.Role) string {
	if role == userv1.Role_ROLE_AUDITOR {
		return ".creds"
	}
	return ".json"
}

// create makes the key here, so that the private half is in the file alone.
func create(ctx context.Context, env *cli.Env, q *accessv1.CreateUserRequest, file string) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage("%s exists; pass another --file", listing.Quote(file))
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
		URL: own.URL, Actor: q.GetName(), Role: listing.Word(q.GetRole()), JWT: r.GetJwt(), Seed: string(seed),
		CA: own.CA, AllowPlain: own.AllowPlain, HTTP: own.HTTP,
	}
	files, err := write(who, file)
	if err != nil {
		return fmt.Errorf("user %s was created, but its credentials cannot be written; revoke it and try again: %w",
			q.GetName(), err)
	}
	return cli.Changed(env, display.Users, r.GetUser(), "user %s created; %s", q.GetName(), files)
}
