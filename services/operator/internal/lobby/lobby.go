// Package lobby is the command lobby.
package lobby

import (
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

type waiting = *registryv1.Waiting

var listing = output.Listing[waiting]{
	Name: waiting.GetFingerprint,
	Columns: []output.Column[waiting]{
		output.Col("FINGERPRINT", waiting.GetFingerprint),
		output.Col("HOSTNAME", func(w waiting) string { return w.GetSysinfo().GetHostname() }),
		output.Col("ADDRESS", waiting.GetAddress),
		output.Col("PLATFORM", func(w waiting) string { return display.Platform(w.GetSysinfo().GetPlatform()) }),
		output.Col("SINCE", func(w waiting) string { return output.Stamp(w.GetFirstAt()) }),
		output.Wide("HEARD", func(w waiting) string { return output.Stamp(w.GetLastAt()) }),
		output.Wide("MEMORY", func(w waiting) string { return output.Size(w.GetSysinfo().GetMemoryBytes()) }),
		output.Wide("EXECUTOR", func(w waiting) string { return w.GetSysinfo().GetExecutorVersion() }),
		output.Wide("KEY", waiting.GetPublicKey),
	},
}

const long = `Machines without a token that ask to join: executor run --lobby --bus URL. Each shows the fingerprint
of its key; compare it before you accept it, because a machine says of itself what it likes. The lobby is closed
unless the control plane was started with --lobby.`

// Commands returns the command lobby with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	c := cli.Group("lobby", "Accept or reject machines that ask to join without a token.",
		listCommand(env), acceptCommand(env), rejectCommand(env))
	c.Long = long
	return c
}

// where adds a flag that selects machines.
func where(c *cobra.Command, to *[]string, name string) {
	c.Flags().StringArrayVar(to, name, nil, "`SELECTOR` of machines, as for --on, by platform, os, arch, hostname, "+
		"kernel, distribution, cpus, memory, executor, or address=PREFIX; repeatable, all must match")
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var on []string
	c := &cobra.Command{
		Use: "list", Example: "  garrison lobby list --where address=10.1.0.0/16",
		Short: "List machines that wait.", Args: cli.Exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			note := &registryv1.ListLobbyResponse{Open: true}
			err := cli.List(c.Context(), env, page, listing, func(ctx context.Context,
				p *apiv1.Page) (*registryv1.ListLobbyResponse, error) {
				r, err := list(ctx, env, "--where", on, p)
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
		},
	}
	page.Add(c, 0)
	where(c, &on, "where")
	return c
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
		return nil, cli.Usage("name fingerprints, or select machines with --all-matching. Try: garrison lobby list")
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
	if len(out) == 0 {
		return nil, nil
	}
	return out, output.Show(env.Messages(), listing, r, r.GetWaiting())
}
