package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// standingVerb changes whether servers are believed and let in.
type standingVerb struct {
	name, past  string
	short, long string
	suggest     []string
	next        string // the command that takes it back, before the servers
	unchanged   string // what a server is that keeps its standing; "" where the standing does not tell
	shutsOut    bool   // so that it needs --at-once for many servers
	ask         func(ctx context.Context, env *cli.Env, server, reason string) (display.Server, error)
}

// standingFlags are the flags of such a verb.
type standingFlags struct {
	on     selector.Flags
	reason string
	dryRun bool
	yes    bool
	atOnce bool
}

func quarantineCommand(env *cli.Env) *cobra.Command {
	return standingVerb{
		name: "quarantine", past: "quarantined", next: "garrison server release", shutsOut: true,
		unchanged: "quarantined already",
		short:     "Shut servers out until they are released.",
		long: `Shut servers out until they are released: the bus drops their connections and refuses new ones, what they
report does not count, and nothing new is sent to them. Their agents keep running as they are. garrison server release
ends it, and the servers converge again.`,
		suggest: []string{"block", "ban", "isolate", "suspend"},
		ask: func(ctx context.Context, env *cli.Env, server, reason string) (display.Server, error) {
			q := &registryv1.QuarantineServerRequest{Server: server, Reason: reason}
			r, err := cli.Call[*registryv1.QuarantineServerResponse](ctx, env, q)
			return r.GetServer(), err
		},
	}.command(env)
}

func releaseCommand(env *cli.Env) *cobra.Command {
	return standingVerb{
		name: "release", past: "released", next: "garrison server quarantine",
		unchanged: "not quarantined",
		short:     "End the quarantine of servers.",
		long: `End the quarantine of servers: the bus lets them in again with the credentials that they have, and they
converge to what is wanted.`,
		suggest: []string{"unblock", "unban", "resume"},
		ask: func(ctx context.Context, env *cli.Env, server, reason string) (display.Server, error) {
			q := &registryv1.ReleaseServerRequest{Server: server, Reason: reason}
			r, err := cli.Call[*registryv1.ReleaseServerResponse](ctx, env, q)
			return r.GetServer(), err
		},
	}.command(env)
}

func revokeCommand(env *cli.Env) *cobra.Command {
	return standingVerb{
		name: "revoke", past: "revoked", next: "garrison server enroll", shutsOut: true,
		short: "Void the credentials of servers for good.",
		long: `Void the credentials of servers for good, for example of a machine that was stolen or whose disk was
copied: the bus drops their connections and refuses their keys. The servers stay in the inventory with their instances,
and their agents keep running. A server comes back with a new token of garrison server enroll and a new key; it keeps
its id. A token that was made since is void too.`,
		suggest: []string{"void"},
		ask: func(ctx context.Context, env *cli.Env, server, reason string) (display.Server, error) {
			q := &registryv1.RevokeServerRequest{Server: server, Reason: reason}
			r, err := cli.Call[*registryv1.RevokeServerResponse](ctx, env, q)
			return r.GetServer(), err
		},
	}.command(env)
}

// command returns the command of a verb.
func (v standingVerb) command(env *cli.Env) *cobra.Command {
	f := &standingFlags{}
	c := &cobra.Command{
		Use:        v.name + " [SERVER]…",
		Short:      v.short,
		Long:       v.long,
		SuggestFor: v.suggest,
		Example: fmt.Sprintf("  garrison server %[1]s web-1 -m 'unknown traffic'\n"+
			"  garrison server %[1]s --on rack=a1 --dry-run", v.name),
		PreRunE: cli.Prints(env, display.Servers),
		RunE:    func(c *cobra.Command, a []string) error { return v.run(c.Context(), env, f, a) },
	}
	f.on.Add(c)
	cli.NoteVar(c.Flags(), &f.reason)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the servers; change nothing")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	if v.shutsOut {
		c.Flags().BoolVar(&f.atOnce, "at-once", false, "shut out more than 100 servers at once")
	}
	return c
}

func (v standingVerb) run(ctx context.Context, env *cli.Env, f *standingFlags, names []string) error {
	found, err := selected(ctx, env, f.on, names)
	if err != nil {
		return err
	}
	var wide error
	if v.shutsOut {
		wide = work.CheckWidth(v.name, len(found), f.atOnce)
	}
	if f.dryRun && wide != nil {
		env.Say("%s would be %s", listing.Plural(len(found), "server"), v.past)
		err := output.Show(env.Output, display.Servers, &registryv1.ListServersResponse{Servers: found}, found)
		return cli.FirstError(err, wide)
	}
	if wide != nil {
		return wide
	}
	if !f.dryRun {
		for _, s := range found {
			env.Say("server %s (%s), %s", s.GetName(), s.GetId(), display.ServerState(s))
		}
		question := strings.ToUpper(v.name[:1]) + v.name[1:] + " " + listing.Plural(len(found), "server") + "?"
		if err := env.Confirm(ctx, f.yes, question); err != nil {
			return err
		}
	}
	return v.each(ctx, env, f, found)
}

// each changes servers one after the other. A refusal does not keep the rest from being changed. A dry run asks the
// same, and the registry records nothing.
func (v standingVerb) each(ctx context.Context, env *cli.Env, f *standingFlags, found []display.Server) error {
	var done []display.Server
	var refused error
	for _, s := range found {
		now, err := v.ask(ctx, env, s.GetId(), f.reason)
		same := err == nil && v.unchanged != "" && now.GetStanding() == s.GetStanding()
		switch {
		case same || errors.Is(err, client.ErrUnchanged):
			env.Say("server %s is %s; nothing to do", s.GetName(), cmp.Or(v.unchanged, v.past+" already"))
		case errors.Is(err, client.ErrDryRun):
			done = append(done, s)
		case err == nil:
			done = append(done, now)
		case len(found) == 1:
			return err
		default:
			env.Say("server %s is not %s: %v", s.GetName(), v.past, err)
			refused = cli.FirstError(refused, err)
		}
	}
	if len(done) == 0 {
		return cli.Ended(cli.CodeOf(refused))
	}
	if count := listing.Plural(len(done), "server"); f.dryRun {
		env.Say("%s would be %s", count, v.past)
	} else {
		env.Say("%s %s; to take it back: %s %s", count, v.past, v.next, namesOf(done))
	}
	err := output.Show(env.Output, display.Servers, &registryv1.ListServersResponse{Servers: done}, done)
	if refused != nil {
		return cli.FirstError(err, cli.Ended(cli.ExitPartly))
	}
	return err
}

func namesOf(servers []display.Server) string {
	var out []string
	for _, s := range servers {
		out = append(out, s.GetName())
	}
	return strings.Join(out, " ")
}

// selected returns the servers that are named or selected.
func selected(ctx context.Context, env *cli.Env, on selector.Flags, names []string) ([]display.Server, error) {
	if len(names) > 0 && len(on.On) > 0 {
		return nil, cli.Usage("name servers or select them with --on, not both")
	}
	if len(names) == 0 {
		sel, err := on.Selector()
		if err != nil {
			return nil, err
		}
		return matching(ctx, env, &registryv1.ListServersRequest{On: sel})
	}
	var out []display.Server
	for _, name := range names {
		s, err := fleet.Server(ctx, env, name)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// matching returns the servers under management that a request matches; none is an error.
func matching(ctx context.Context, env *cli.Env, q *registryv1.ListServersRequest) ([]display.Server, error) {
	r, err := cli.All[*registryv1.ListServersResponse](ctx, env, q)
	if err != nil {
		return nil, err
	}
	var out []display.Server
	for _, s := range r.GetServers() {
		if display.Managed(s) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, cli.Usage("no server under management is selected. Try: garrison server list %s",
			selection.Args(q.GetOn()))
	}
	return out, nil
}
