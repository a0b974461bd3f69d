package token

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
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

func createCommand(env *cli.Env) *cobra.Command {
	var expires time.Duration
	var file string
	var provisioned bool
	q := &registryv1.CreateTokenRequest{NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME}
	c := &cobra.Command{
		SuggestFor: []string{"add", "new", "enroll"},
		Use:        "create NAME",
		Short:      "Create a join token for many servers, printed to standard output.",
		Long: `Create a token with which up to --uses servers join, each with a key of its own: for an image of a
machine, a kickstart file, or a rack. A server's name is its host name; where that is taken, a number follows.
Anyone with the token can join as a new server until it is used up, expires, or is revoked: keep the three
short, and --from-address narrow. Behind a router that translates addresses the bus sees
the router's.`,
		Example: "  garrison token create rack-a --uses 40 " +
			"--from-address 10.1.0.0/16 --token-file rack-a.token\n" +
			"  garrison token create lab --uses 5 > lab.token",
		Args: cli.Exactly("NAME"),
		RunE: func(c *cobra.Command, a []string) error {
			if q.Uses == 0 {
				return cli.Usage("--uses is missing: how many servers may join. "+
					"Try: garrison token create %s --uses 10", a[0])
			}
			q.Name, q.ValidFor = a[0], durationpb.New(expires)
			if provisioned {
				q.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED
			}
			return create(c.Context(), env, q, file)
		},
	}
	f := c.Flags()
	cli.NumberVar(f, &q.Uses, "uses", "a number of servers", mostUses,
		"how many `SERVERS` may join with it; must be set")
	cli.TimeVar(f, &expires, "valid", time.Hour, inventory.LongestToken,
		"validity of the token, a `DURATION` such as 12h or 20d; at most 30d")
	cli.TextVar(f, &q.Environment, "env", cli.Name("environment"), "the `ENVIRONMENT` of the servers")
	cli.TextVar(f, &q.Cell, "cell", cli.Name("cell"), "the `SITE` of the servers")
	cli.PairsVar(f, &q.Labels, "label", "a label of the servers, `LABEL=VALUE`; repeatable", cli.ParseLabel)
	cli.NamesVar(f, &q.FromAddresses, "from-address", checkRange,
		"accept it only from this address or `PREFIX`, such as 10.0.0.0/8, as the bus sees it; repeatable")
	cli.WordVar(f, &q.NameFrom, "name-from", "where the names of the servers come `FROM`")
	f.BoolVar(&provisioned, "provisioned", false, "a provisioner creates and destroys the machines, so the "+
		"executors never remove themselves; cannot be changed later")
	cli.TextVar(f, &file, "token-file", cli.NotEmpty("file"),
		"write the token to this `FILE`, mode 0600; keep a file that holds it")
	return c
}

// mostUses is how many servers may join with one token.
const mostUses = 100_000

// checkRange checks an address or a prefix. The registry checks it again.
func checkRange(text string) error {
	if _, err := netip.ParseAddr(text); err == nil {
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither an address nor a prefix such as 10.0.0.0/8", text)
	case prefix.Masked() != prefix:
		return fmt.Errorf("%q has bits beyond its length; did you mean %s?", text, prefix.Masked())
	}
	return nil
}

// create makes a token and prints it, or writes it to a file. A file that holds the token of that name is kept.
func create(ctx context.Context, env *cli.Env, q *registryv1.CreateTokenRequest, file string) error {
	if _, err := os.Lstat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, keepToken(env, q.GetName(), file))
	}
	target, err := cli.ReserveTarget(file)
	if err != nil {
		return err
	}
	defer target.Discard()
	fleet.SayNewSite(ctx, env, q.GetCell())
	r, err := cli.Call[*registryv1.CreateTokenResponse](ctx, env, q)
	if err != nil {
		return err
	}
	env.Say("%s may join until %s; on each machine, as root: executor join --token-file FILE",
		listing.Plural(int(r.GetToken().GetUses()), "server"), listing.Stamp(r.GetToken().GetExpiresAt()))
	return target.KeepOrShow(env, r, r.GetSecret())
}

// keepToken reports that a file holds a token, so that the command may be repeated. It refuses every other file.
func keepToken(env *cli.Env, name, file string) error {
	token, err := inventory.TokenIn(file)
	switch {
	case err != nil:
		return err
	case token.Pool != name:
		return fault.Refusef(fault.Conflict, code.Exists, "%s exists and holds another token than %s", file, name).
			Try("another --token-file")
	}
	env.Say("%s exists and holds token %s; no new token created", file, name)
	return nil
}
