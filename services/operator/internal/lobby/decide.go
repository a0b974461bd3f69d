package lobby

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// atOnce is how many machines one request decides about.
const atOnce = 200

type accepted = *registryv1.Accepted

var acceptedListing = output.Listing[accepted]{
	Name: accepted.GetName,
	Columns: []output.Column[accepted]{
		output.Col("FINGERPRINT", accepted.GetFingerprint),
		output.Col("NAME", accepted.GetName),
		output.Col("SERVER", accepted.GetServerId),
		output.Col("BEFORE", func(a accepted) string {
			if a.GetAlready() {
				return "yes"
			}
			return ""
		}),
	},
}

func acceptCommand(env *cli.Env) *cobra.Command {
	var matching []string
	var yes, provisioned bool
	q := &registryv1.AcceptLobbyRequest{NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME}
	c := &cobra.Command{
		Use:   "accept [FINGERPRINT]…",
		Short: "Accept machines: each becomes a server, and joins when it asks again.",
		Example: "  garrison lobby accept K7QF-XMZA-3B2T-WE5J-HN4Y --env prod --label rack=a\n" +
			"  garrison lobby accept --all-matching address=10.1.0.0/16,os=linux --env prod",
		PreRunE: cli.Prints(env, acceptedListing),
		RunE: func(c *cobra.Command, a []string) error {
			if provisioned {
				q.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED
			}
			return accept(c.Context(), env, q, decision{named: a, matching: matching, yes: yes})
		},
	}
	f := c.Flags()
	where(c, &matching, "all-matching")
	cli.TextVar(f, &q.Name, "name", cli.ServerName, "the `NAME` of the server, for one machine; default: --name-from")
	cli.TextVar(f, &q.Environment, "env", cli.Name("environment"), "the `ENVIRONMENT` of the servers")
	cli.TextVar(f, &q.Cell, "cell", cli.Name("cell"), "the `SITE` of the servers")
	cli.PairsVar(f, &q.Labels, "label", "a label of the servers, `LABEL=VALUE`; repeatable", cli.ParseLabel)
	cli.WordVar(f, &q.NameFrom, "name-from", "where the names of the servers come `FROM`")
	f.BoolVar(&provisioned, "provisioned", false, "a provisioner creates and destroys the machines, so the "+
		"executors never remove themselves; cannot be changed later")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

// decision names machines.
type decision struct {
	named, matching []string
	yes             bool
}

// choose returns the machines, and asks for confirmation where a selection was made.
func (d decision) choose(ctx context.Context, env *cli.Env, verb string) ([]string, error) {
	fingerprints, err := chosen(ctx, env, d.named, d.matching)
	if err != nil || len(d.named) > 0 {
		return fingerprints, err
	}
	if len(fingerprints) == 0 {
		env.Say("no machine matches; nothing to do")
		return nil, nil
	}
	return fingerprints, env.Confirm(ctx, d.yes, verb+" "+output.Plural(len(fingerprints), "machine")+"?")
}

// accept accepts machines part by part; each part is accepted as a whole or not at all.
func accept(ctx context.Context, env *cli.Env, q *registryv1.AcceptLobbyRequest, d decision) error {
	fingerprints, err := d.choose(ctx, env, "Accept")
	if err != nil || len(fingerprints) == 0 {
		return err
	}
	whole := &registryv1.AcceptLobbyResponse{}
	for part := range slices.Chunk(fingerprints, atOnce) {
		q.Fingerprints = part
		r, err := cli.Call[*registryv1.AcceptLobbyResponse](ctx, env, q)
		if err != nil {
			if n := len(whole.GetAccepted()); n > 0 {
				env.Say("%s accepted before that; the same command continues", output.Plural(n, "machine"))
			}
			return err
		}
		proto.Merge(whole, r)
	}
	if err := output.Show(env.Output, acceptedListing, whole, whole.GetAccepted()); err != nil {
		return err
	}
	env.Say("%s accepted; each joins when it asks again, within seconds", output.Plural(len(whole.GetAccepted()),
		"machine"))
	return nil
}

func rejectCommand(env *cli.Env) *cobra.Command {
	var matching []string
	var yes bool
	q := &registryv1.RejectLobbyRequest{}
	c := &cobra.Command{
		Use: "reject [FINGERPRINT]…", Short: "Refuse machines for a day.",
		Example: "  garrison lobby reject K7QF-XMZA-3B2T-WE5J-HN4Y -m 'not ours'",
		RunE: func(c *cobra.Command, a []string) error {
			return reject(c.Context(), env, q, decision{named: a, matching: matching, yes: yes})
		},
	}
	where(c, &matching, "all-matching")
	cli.NoteVar(c.Flags(), &q.Reason)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

func reject(ctx context.Context, env *cli.Env, q *registryv1.RejectLobbyRequest, d decision) error {
	fingerprints, err := d.choose(ctx, env, "Reject")
	if err != nil || len(fingerprints) == 0 {
		return err
	}
	for part := range slices.Chunk(fingerprints, atOnce) {
		q.Fingerprints = part
		r, err := cli.Call[*registryv1.RejectLobbyResponse](ctx, env, q)
		if err != nil {
			return err
		}
		env.Say("rejected until %s: %s", output.Stamp(r.GetUntil()), strings.Join(part, " "))
	}
	return nil
}
