package server

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func decommissionCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	var lost, force bool
	c := &cobra.Command{
		Use: "decommission [SERVER]…",
		Example: "  garrison server decommission web-1\n" +
			"  garrison server decommission --on rack=a1 --dry-run",
		Short: "Remove every agent from servers and retire them.",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 && len(w.Servers.On) == 0 {
				return cli.Exactly("SERVER")(c, a)
			}
			return nil
		},
		SuggestFor: []string{"delete", "remove", "retire", "rm"},
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 1 && len(w.Servers.On) == 0 {
				return decommission(c.Context(), env, w, a[0], lost, force)
			}
			if len(a) > 0 {
				w.Servers.On = append(w.Servers.On, strings.Join(a, ","))
			}
			return decommissionMany(c.Context(), env, w, &intentv1.Decommission{Lost: lost, Force: force})
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	c.Flags().BoolVar(&lost, "lost", false, "the machine is lost: remove nothing from it and record it as dead at once")
	c.Flags().BoolVar(&force, "force", false, "with --lost: give the machine up although it still beats, and void its "+
		"credentials")
	return c
}

// decommissionMany shows which servers would go, asks, and retires them with one intent.
func decommissionMany(ctx context.Context, env *cli.Env, w work.Flags, ask *intentv1.Decommission) (err error) {
	if ask.On, err = w.Selector(); err != nil {
		return err
	}
	if err := sayAgents(ctx, env, &registryv1.ListInstancesRequest{On: ask.On}); err != nil {
		return err
	}
	question := "Remove every agent and retire the server"
	if ask.GetLost() {
		question = "Give up the machine and record the server as dead"
	}
	return work.Propose(ctx, env, w, work.Proposal{
		Verb: topology.VerbDecommission, Question: question,
		Asks: []*registryv1.PlanIntentRequest{{Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Decommission{Decommission: ask},
		}}},
	})
}

func decommission(ctx context.Context, env *cli.Env, w work.Flags, name string, lost, force bool) error {
	if force && !lost {
		return cli.Usage("--force is for a machine that is lost. Try: garrison server decommission %s --lost --force",
			name)
	}
	found, err := fleet.Server(ctx, env, name)
	if err != nil {
		return err
	}
	if found.GetLife() == serverv1.Life_LIFE_DEAD {
		env.Say("server %s is dead already; nothing to do. To hide it: garrison server forget %s", found.GetName(),
			found.GetId())
		return nil
	}
	if force {
		env.Say("its credentials are void from then on: its executor can neither remove its agents nor itself")
	}
	env.Say("server %s (%s) ends", found.GetName(), display.ServerState(found))
	if err := sayAgents(ctx, env, &registryv1.ListInstancesRequest{Server: found.GetId()}); err != nil {
		return err
	}
	if display.FoundCount(found) > 0 {
		env.Say("unmanaged agents stay on it (%d): garrison explain %s", display.FoundCount(found), found.GetName())
	}
	if err := env.Confirm(ctx, w.Yes, "Decommission "+found.GetName()+"?"); err != nil {
		return err
	}
	ask := &intentv1.Intent{
		Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{
			Server: found.GetId(), Lost: lost, Force: force,
		}},
	}
	without := "server " + found.GetName() + " is dead; it had no agent to remove"
	if lost {
		without = "server " + found.GetName() + " is recorded as dead; nothing was removed from it"
	}
	return work.Publish(ctx, env, w,
		watch.Order{Verb: topology.VerbDecommission, Intent: ask, Dying: found.GetId(), Without: without})
}

// agentsNamed is how many agents a line names.
const agentsNamed = 10

// sayAgents prints the agents that end with their servers.
func sayAgents(ctx context.Context, env *cli.Env, filter *registryv1.ListInstancesRequest) error {
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
		Filter: filter, By: []string{"agent"}, Top: agentsNamed,
	})
	if err != nil {
		return err
	}
	var names []string
	for _, g := range r.GetCounts().GetGroups() {
		names = append(names, g.GetValues()[0]+" on "+listing.Plural(int(g.GetCount()), "server"))
	}
	if n := r.GetCounts().GetOthers(); n > 0 {
		names = append(names, "others "+listing.Plural(int(n), "time"))
	}
	if len(names) > 0 {
		env.Say("agents that end, too: %s", strings.Join(names, ", "))
	}
	return nil
}

// forgottenAtOnce is how many servers are forgotten side by side.
const forgottenAtOnce = 8

// forgetFlags select which servers are forgotten.
type forgetFlags struct {
	on                         selector.Flags
	leak, invited, dryRun, yes bool
}

func forgetCommand(env *cli.Env) *cobra.Command {
	f := &forgetFlags{}
	c := &cobra.Command{
		Use: "forget [SERVER]…",
		Example: "  garrison server forget web-1\n" +
			"  garrison server forget --on rack=a1 --dry-run\n" +
			"  garrison server forget --on site=lab --invited",
		Short: "Hide dead servers, or cancel unused invitations; their history stays in the ledger.",
		Long: `Hide a dead server, or cancel an unused invitation; its history stays in the ledger. Several servers, and
those of --on, are shown and must be confirmed: only dead ones, or with --invited only those that never joined. A
server that is refused, such as a leaked one without --leak, does not keep the others.`,
		Args: func(_ *cobra.Command, a []string) error { return oneOrMany(&f.on)(a) },
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 1 && !f.invited {
				if err := env.Confirm(c.Context(), f.yes, "Forget "+a[0]+"?"); err != nil {
					return err
				}
				return forget(c.Context(), env, f, a[0], a[0])
			}
			return forgetMany(c.Context(), env, f, a)
		},
	}
	f.on.Add(c)
	c.Flags().BoolVar(&f.leak, "leak", false, "forget leaked servers too, and print what may be left on their machines")
	c.Flags().BoolVar(&f.invited, "invited", false, "of several servers, those that never joined instead of dead ones")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show the servers; forget none")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

// forget forgets one server.
func forget(ctx context.Context, env *cli.Env, f *forgetFlags, server, name string) error {
	id, err := forgetOne(ctx, env, f.leak, server, name, env.Say)
	if err == nil {
		env.Say("server %s (%s) forgotten; its history stays in the ledger", name, id)
	}
	return err
}

// forgetOne forgets a server, says what is left on its machine, and returns its id.
func forgetOne(
	ctx context.Context, env *cli.Env, leak bool, server, name string, say func(format string, args ...any),
) (id string, err error) {
	r, err := cli.Call[*registryv1.ForgetServerResponse](ctx, env,
		&registryv1.ForgetServerRequest{Server: server, Leak: leak})
	if err != nil {
		return "", err
	}
	gone := &serverv1.Server{Life: serverv1.Life_LIFE_DEAD, Duties: r.GetLeaks()}
	if display.Leaked(gone) {
		say("left on the machine of %s: %s", name, display.LeakText(gone))
	}
	return r.GetServerId(), nil
}

// forgetMany shows which servers would be forgotten, asks, and forgets them.
func forgetMany(ctx context.Context, env *cli.Env, f *forgetFlags, names []string) error {
	q, what := &registryv1.ListServersRequest{Life: serverv1.Life_LIFE_DEAD}, "dead server"
	if f.invited {
		q.Life, what = serverv1.Life_LIFE_INVITED, "server that never joined"
	}
	found, err := picked(ctx, env, f.on, names, q, what)
	if err != nil {
		return err
	}
	if f.dryRun {
		env.Say("%s would be forgotten", listing.Plural(len(found), "server"))
		return output.Show(env.Output, display.Servers, &registryv1.ListServersResponse{Servers: found}, found)
	}
	sayServers(env, found)
	if err := env.Confirm(ctx, f.yes, "Forget "+listing.Plural(len(found), "server")+"?"); err != nil {
		return err
	}
	say := quietly(env)
	failed, err := each(ctx, found, forgottenAtOnce, func(s display.Server) error {
		_, err := forgetOne(ctx, env, f.leak, s.GetId(), s.GetName(), say)
		if err != nil {
			say("server %s is not forgotten: %s", s.GetName(), cli.LineOf(err))
		}
		return err
	})
	env.Say("%s forgotten; the history stays in the ledger", listing.Plural(len(found)-failed, "server"))
	return concludeMany(ctx, env, len(found), failed, err, "the same command tries them again")
}
