package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

const enrollLong = `Create a one-time join token for a new server, or for one whose credentials are revoked or have
expired: that one keeps its id, its site, its labels, its environment and its instances.

With --replace, the token is for a new machine in the place of a server's old one, whose credentials become void. The
server keeps all of that, and the new machine converges to it once it joined; what is on the old one is not touched.
Refused while the old machine is online, unless --force. Two machines that beat as one server (DUPLICATE_IDENTITY) are
told apart the same way: both are shut out, and the one that joins with the token is the server again.

With --from, invite all servers of a file and write the token of each to DIR/NAME.token. A line of the file is
NAME [env=ENVIRONMENT] [cell=SITE] [id=UUID] [LABEL=VALUE]…, and a # begins a comment; what the flags say holds for
all. A server whose token file exists is skipped, so the command may be repeated.

With --pooled TOKEN, make one token of that name for all servers of the file instead, as garrison token create does: it
admits as many servers as the file lists, and every server gets the environment, site and labels that all lines must
have in common. It does not say which machine is which: a server's name is its host name, and a machine that the file
does not list can join with it as well.`

func enrollCommand(env *cli.Env) *cobra.Command {
	var valid time.Duration
	var file string
	var provisioned bool
	var replaces bool
	m := many{}
	q := &registryv1.InviteServerRequest{}
	instead := &registryv1.ReplaceServerRequest{}
	c := &cobra.Command{
		SuggestFor: []string{"add", "create", "invite", "join", "replace", "swap"},
		Use:        "enroll NAME [--replace] | --from FILE --out DIR | --from FILE --pooled TOKEN",
		Short:      "Create a one-time join token for a server, printed to standard output.",
		Long:       enrollLong,
		Args: func(c *cobra.Command, a []string) error {
			if m.from != "" {
				return cli.Exactly()(c, a)
			}
			return cli.Exactly("NAME")(c, a)
		},
		Example: "  garrison server enroll web-1 --label rack=a1 --token-file web-1.token\n" +
			"  garrison server enroll web-1 > web-1.token\n" +
			"  garrison server enroll web-1 --replace -m 'board broke' --token-file web-1.token\n" +
			"  garrison server enroll --from rack-a.txt --out tokens --env prod --valid 24h\n" +
			"  garrison server enroll --from rack-a.txt --pooled rack-a --token-file rack-a.token",
		RunE: func(c *cobra.Command, a []string) error {
			q.ValidFor = durationpb.New(valid)
			if instead.Force && !replaces {
				return cli.Usage("--force requires --replace")
			}
			if replaces {
				return replaceWith(c, env, instead, q, a, file)
			}
			if provisioned {
				q.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED
			}
			if m.like = q; m.pooled != "" || m.from != "" {
				return m.enroll(c.Context(), env, file)
			}
			q.Name = a[0]
			return enroll(c.Context(), env, q, file)
		},
	}
	c.Flags().
		StringVar(&file, "token-file", "", "write the token to this `FILE`, mode 0600; keep a file whose token "+
			"the server still waits for")
	c.Flags().BoolVar(&replaces, "replace", false, "for a new machine in the place of the server's old one")
	c.Flags().BoolVar(&instead.Force, "force", false, "with --replace: also while the old machine is online, which is "+
		"shut out")
	cli.TextVar(c.Flags(), &m.from, "from", cli.NotEmpty("file"), "invite the servers that this `FILE` lists; - reads "+
		"standard input")
	cli.TextVar(c.Flags(), &m.out, "out", cli.NotEmpty("directory"), "with --from: the `DIR` for the tokens; created "+
		"if missing")
	cli.TextVar(c.Flags(), &m.pooled, "pooled", cli.Name("token"), "with --from: one token of this `NAME` for all")
	cli.PairsVar(c.Flags(), &q.Labels, "label", "a label of the server, `LABEL=VALUE`; repeatable", cli.ParseLabel)
	cli.TextVar(c.Flags(), &q.Environment, "env", cli.Name("environment"), "the `ENVIRONMENT` of the server")
	cli.TextVar(c.Flags(), &q.ServerId, "id", cli.ID("server"), "the `UUID` that a new server gets as its id "+
		"(default: a new one)")
	cli.TextVar(c.Flags(), &q.Cell, "cell", cli.Name("cell"), "the `SITE` of the server")
	c.Flags().
		BoolVar(&provisioned, "provisioned", false, "a provisioner creates and destroys the machine, so the "+
			"executor never removes itself; cannot be changed later")
	cli.TimeVar(c.Flags(), &valid, "valid", time.Hour, inventory.LongestToken,
		"validity of the token, a `DURATION` such as 12h or 20d; at most 30d")
	return c
}

// enroll invites the servers of a file, each with a token or all with one.
func (m many) enroll(ctx context.Context, env *cli.Env, file string) error {
	switch {
	case m.from == "":
		return cli.Usage("--pooled needs --from. Try: garrison token create %s --uses N", m.pooled)
	case m.like.GetServerId() != "":
		return cli.Usage("--id is for one server. Try: id=UUID in a line of the file")
	case m.pooled != "":
		return enrollPooled(ctx, env, m, file)
	case file != "":
		return cli.Usage("--token-file is for one token. Try: --from %s --out DIR", m.from)
	}
	return enrollFrom(ctx, env, m)
}

// enroll invites a server and prints its token, or writes it to a file. A file that exists is kept.
func enroll(ctx context.Context, env *cli.Env, q *registryv1.InviteServerRequest, file string) error {
	if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, keepToken(ctx, env, q.GetName(), file))
	}
	target, err := cli.ReserveTarget(file)
	if err != nil {
		return err
	}
	defer target.Discard()
	fleet.SayNewSite(ctx, env, q.GetCell())
	r, err := cli.Call[*registryv1.InviteServerResponse](ctx, env, q)
	if err != nil {
		return err
	}
	if r.GetAgain() {
		env.Say("server %s is known: it keeps its id, site, labels, environment and agents", q.GetName())
	}
	env.Say("server %s (%s) may join until %s; on the machine, as root: executor join --token-file FILE", q.GetName(),
		r.GetServerId(), listing.Stamp(r.GetExpiresAt()))
	return target.KeepOrShow(env, r, r.GetToken())
}

// keepToken reports what a token file that exists is good for, so that the command may be repeated. It refuses when the
// server of that name can no longer join with it: the token is of an earlier server.
func keepToken(ctx context.Context, env *cli.Env, name, file string) error {
	token, err := inventory.TokenIn(file)
	if err != nil {
		return err
	}
	s, err := fleet.Server(ctx, env, name)
	own := err == nil && token.ServerID == s.GetId()
	waits := s.GetLife() == serverv1.Life_LIFE_INVITED && s.GetTokenExpiresAt().AsTime().After(env.Output.View().At)
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	case own && waits:
		env.Say("%s exists; no new token created for %s", file, name)
		return nil
	case own && s.GetLife() == serverv1.Life_LIFE_ALIVE && s.GetStanding() != serverv1.Standing_STANDING_REVOKED:
		env.Say("%s exists; server %s has joined; no new token created", file, name)
		return nil
	}
	return fault.Refusef(fault.Conflict, code.Exists,
		"%s exists, and server %s cannot join with it: it expired, or is of another server", file, name).
		Try("another --token-file")
}

// reserveNew makes room for a token, and refuses a file that exists, for it may hold a token that is still needed.
func reserveNew(file string) (*cli.Target, error) {
	if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Usage("%s exists. Try: another --token-file", file)
	}
	return cli.ReserveTarget(file)
}

// enrollPooled makes one token for all servers that a file lists. A token does not know which machine uses it, so the
// lines may differ in their names only.
func enrollPooled(ctx context.Context, env *cli.Env, m many, file string) error {
	if m.out != "" {
		return cli.Usage("--out is for a token each. Try: --pooled %s --token-file FILE", m.pooled)
	}
	target, err := reserveNew(file)
	if err != nil {
		return err
	}
	defer target.Discard()
	all, err := m.read(env)
	if err != nil {
		return err
	}
	q, err := pooledFor(all)
	if err != nil {
		return err
	}
	q.Name = m.pooled
	fleet.SayNewSite(ctx, env, q.GetCell())
	r, err := cli.Call[*registryv1.CreateTokenResponse](ctx, env, q)
	if err != nil {
		return err
	}
	env.Say("%s may join until %s, under their host names; on each machine, as root: executor join --token-file FILE",
		listing.Plural(int(r.GetToken().GetUses()), "server"), listing.Stamp(r.GetToken().GetExpiresAt()))
	return target.KeepOrShow(env, r, r.GetSecret())
}

// pooledFor returns the request for the token of several servers, and refuses servers that differ.
func pooledFor(all []*registryv1.InviteServerRequest) (*registryv1.CreateTokenRequest, error) {
	first := all[0]
	for _, s := range all {
		switch {
		case s.GetServerId() != "":
			return nil, cli.Usage("server %s has an id, which one token for all cannot bring to its machine. "+
				"Try: --out DIR, a token each", s.GetName())
		case s.GetEnvironment() != first.GetEnvironment() || s.GetCell() != first.GetCell() ||
			!maps.Equal(s.GetLabels(), first.GetLabels()):
			return nil, cli.Usage("servers %s and %s differ in environment, site or labels, which one token for all "+
				"cannot bring to their machines. Try: --out DIR, a token each", first.GetName(), s.GetName())
		}
	}
	return &registryv1.CreateTokenRequest{
		Uses: uint32(len(all)), ValidFor: first.GetValidFor(), Environment: first.GetEnvironment(),
		Cell: first.GetCell(), Labels: first.GetLabels(), Ownership: first.GetOwnership(),
		NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME,
	}, nil
}
