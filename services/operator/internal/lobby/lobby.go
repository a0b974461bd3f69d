// Package lobby lists machines that ask to join without a token, and builds the commands server accept and reject.
package lobby

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// where adds a flag that selects machines.
func where(c *cobra.Command, to *[]string) {
	c.Flags().StringArrayVar(to, "all-matching", nil, "`SELECTOR` of machines, as for --on, by platform, os, arch, "+
		"hostname, kernel, distribution, cpus, memory, executor, or address=PREFIX; repeatable, all must match")
}

// List lists the machines that wait and meet the conditions of --on.
func List(ctx context.Context, env *cli.Env, page cli.PageFlags, on []string) error {
	if len(on) == 1 && on[0] == "all" {
		on = nil
	}
	env.Empty = "no machines in the lobby"
	note := &registryv1.ListLobbyResponse{Open: true}
	err := cli.List(ctx, env, page, display.Lobby, func(
		ctx context.Context, p *apiv1.Page,
	) (*registryv1.ListLobbyResponse, error) {
		r, err := list(ctx, env, "--on", on, p)
		if err == nil {
			note = r
		}
		return r, err
	})
	if err != nil {
		return err
	}
	if !note.GetOpen() {
		env.Say("the lobby is closed; it opens with garrisond --lobby")
	}
	if note.GetOverflowed() {
		env.Say("more machines ask than the lobby holds; those that ask again come back")
	}
	return nil
}

// list returns one part of the machines that wait.
func list(
	ctx context.Context, env *cli.Env, flag string, on []string, p *apiv1.Page,
) (*registryv1.ListLobbyResponse, error) {
	conditions, err := selector.Where(flag, on, "address", "fingerprint")
	if err != nil {
		return nil, err
	}
	return cli.Call[*registryv1.ListLobbyResponse](ctx, env, &registryv1.ListLobbyRequest{Where: conditions, Page: p})
}

// chosen returns the fingerprints that a command names, or of every machine that matches.
func chosen(ctx context.Context, env *cli.Env, named, matching []string) ([]string, error) {
	if (len(named) > 0) == (len(matching) > 0) {
		return nil, cli.Usage("name fingerprints, or select machines with --all-matching. " +
			"Try: garrison server list --lobby")
	}
	if len(named) > 0 {
		return named, nil
	}
	if len(matching) == 1 && matching[0] == "all" {
		matching = nil
	}
	r, err := cli.Collect(ctx, cli.PageFlags{},
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListLobbyResponse, error) {
			return list(ctx, env, "--all-matching", matching, p)
		})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, w := range r.GetWaiting() {
		out = append(out, w.GetFingerprint())
	}
	if len(out) == 0 && !r.GetOpen() {
		return nil, cli.Refuse(fault.Unavailable, &apiv1.Refusal{
			Code: code.LobbyClosed, Message: "the lobby is closed, so no machine waits", Try: "garrisond --lobby",
		})
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, output.Show(env.Messages(), display.Lobby, r, r.GetWaiting())
}

// atOnce is how many machines one request decides about.
const atOnce = 200

type accepted = *registryv1.Accepted

var acceptedListing = listing.Listing[accepted]{
	Name: accepted.GetName,
	Columns: []listing.Column[accepted]{
		listing.Col("FINGERPRINT", accepted.GetFingerprint),
		listing.Col("NAME", accepted.GetName),
		listing.Col("SERVER", accepted.GetServerId),
		listing.Col("BEFORE", func(a accepted) string {
			if a.GetAlready() {
				return "yes"
			}
			return ""
		}),
	},
}

// AcceptCommand returns the command server accept.
func AcceptCommand(env *cli.Env) *cobra.Command {
	var matching []string
	var yes, provisioned bool
	q := &registryv1.AcceptLobbyRequest{NameFrom: tokenv1.NameFrom_NAME_FROM_HOSTNAME}
	c := &cobra.Command{
		Use:   "accept [FINGERPRINT]…",
		Short: "Accept machines that ask to join without a token: each becomes a server.",
		Long: `Accept machines that ask to join without a token: executor run --lobby --bus URL. Each becomes a server,
and joins when it asks again. Compare the fingerprint of its key, which the machine prints, before you accept it: a
machine says of itself what it likes. The lobby is closed unless the control plane was started with --lobby.`,
		Example: "  garrison server accept K7QF-XMZA-3B2T-WE5J-HN4Y --env prod --label rack=a\n" +
			"  garrison server accept --all-matching address=10.1.0.0/16,os=linux --env prod",
		PreRunE: cli.Prints(env, acceptedListing),
		RunE: func(c *cobra.Command, a []string) error {
			if provisioned {
				q.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED
			}
			return accept(c.Context(), env, q, decision{named: a, matching: matching, yes: yes})
		},
	}
	f := c.Flags()
	where(c, &matching)
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
	return fingerprints, env.Confirm(ctx, d.yes, verb+" "+listing.Plural(len(fingerprints), "machine")+"?")
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
				env.Say("%s accepted before that; the same command continues", listing.Plural(n, "machine"))
			}
			return err
		}
		proto.Merge(whole, r)
	}
	if err := output.Show(env.Output, acceptedListing, whole, whole.GetAccepted()); err != nil {
		return err
	}
	env.Say("%s accepted; each joins when it asks again, within seconds", listing.Plural(len(whole.GetAccepted()),
		"machine"))
	return nil
}

// RejectCommand returns the command server reject.
func RejectCommand(env *cli.Env) *cobra.Command {
	var matching []string
	var yes bool
	q := &registryv1.RejectLobbyRequest{}
	c := &cobra.Command{
		Use: "reject [FINGERPRINT]…", Short: "Refuse machines that ask to join without a token, for a day.",
		Example: "  garrison server reject K7QF-XMZA-3B2T-WE5J-HN4Y -m 'not ours'",
		RunE: func(c *cobra.Command, a []string) error {
			return reject(c.Context(), env, q, decision{named: a, matching: matching, yes: yes})
		},
	}
	where(c, &matching)
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
		env.Say("rejected until %s: %s", listing.Stamp(r.GetUntil()), strings.Join(part, " "))
	}
	return nil
}
