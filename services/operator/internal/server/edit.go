package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/selection"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func setCommand(env *cli.Env) *cobra.Command {
	e := &edits{}
	c := &cobra.Command{
		Use:   "set [SERVER]… [LABEL=VALUE | LABEL-]…",
		Short: "Set or remove labels of servers, rename one, or move servers to another environment.",
		Long: `Set labels (LABEL=VALUE) and remove them (LABEL-), rename a server, or move servers to another
environment: one of the three in a command.

With --env, servers get the agents that the environment wants, and keep theirs: the command shows what would be
installed, and asks. With --name, a server keeps its id, labels and agents; the host name that its machine reports does
not change. Names are unique among servers that are not dead.`,
		Example: "  garrison server set web-1 rack=a1 spare-\n" +
			"  garrison server set web-1 web-2 --env prod\n" +
			"  garrison server set --on env=test --env none\n" +
			"  garrison server set web-1 --name web-old",
		SuggestFor: []string{"mv"},
		PreRunE:    cli.Prints(env, display.Servers),
		RunE: func(c *cobra.Command, a []string) error {
			servers, words, err := e.read(c, a)
			switch {
			case err != nil:
				return err
			case c.Flags().Changed("env"):
				return e.move(c.Context(), env, servers)
			case c.Flags().Changed("name"):
				return rename(c.Context(), env, servers[0], e.name)
			}
			return e.label(c.Context(), env, servers, words)
		},
	}
	cli.TextVar(c.Flags(), &e.environment, "env", cli.Name("environment"), "move to this `ENVIRONMENT`, or none")
	cli.TextVar(c.Flags(), &e.name, "name", cli.ServerName, "rename the server to this `NAME`")
	c.Flags().BoolVar(&e.atOnce, "at-once", false, "also when the environment's defaults install agents on more than "+
		"100 of the servers, or it heals more than 100, at once and without waves")
	e.on.Add(c)
	e.work.Add(c)
	return c
}

// edits are what a command sets of servers.
type edits struct {
	on                selector.Flags
	work              work.DefaultsFlags
	environment, name string
	atOnce            bool
}

// read returns the servers that a command names, and its labels. It refuses what is not one change.
func (e *edits) read(c *cobra.Command, args []string) (servers, labels []string, err error) {
	for _, word := range args {
		if strings.Contains(word, "=") || strings.HasSuffix(word, "-") {
			labels = append(labels, word)
		} else {
			servers = append(servers, strings.Split(word, ",")...)
		}
	}
	changes := 0
	for _, is := range []bool{len(labels) > 0, c.Flags().Changed("env"), c.Flags().Changed("name")} {
		if is {
			changes++
		}
	}
	switch {
	case changes == 0:
		return nil, nil, cli.Usage("nothing to set. Try: garrison server set SERVER LABEL=VALUE")
	case changes > 1:
		return nil, nil, cli.Usage("labels, --env and --name are three changes. Try: a command for each")
	case len(servers) > 0 && len(e.on.On) > 0:
		return nil, nil, cli.Usage("name servers or select them with --on, not both")
	case c.Flags().Changed("name") && len(servers) != 1:
		return nil, nil, cli.Usage("--name is for one server. Try: garrison server set SERVER --name %s", e.name)
	}
	return servers, labels, nil
}

// move moves servers to an environment.
func (e *edits) move(ctx context.Context, env *cli.Env, servers []string) (err error) {
	q := &registryv1.MoveServersRequest{Environment: e.environment, AtOnce: e.atOnce}
	if len(servers) > 0 {
		e.on.On = append(e.on.On, strings.Join(servers, ","))
	}
	if q.On, err = e.on.Selector(); err != nil {
		return err
	}
	if q.Environment == environment.None {
		q.Environment = ""
	}
	return move(ctx, env, e.work, q)
}

// label sets the labels of servers, one after the other.
func (e *edits) label(ctx context.Context, env *cli.Env, servers, words []string) error {
	q, err := changeOf(cmp.Or(strings.Join(servers, " "), "SERVER"), words)
	if err != nil {
		return err
	}
	found, err := selected(ctx, env, e.on, servers)
	if err != nil {
		return err
	}
	var now []display.Server
	changed := 0
	for _, before := range found {
		q.Server = before.GetId()
		after, failed := label(ctx, env, before, q)
		if failed != nil && !errors.Is(failed, client.ErrDryRun) {
			return cli.FirstError(failed, showLabels(env, now, changed))
		}
		if now, err = append(now, after), failed; !maps.Equal(before.GetLabels(), after.GetLabels()) {
			changed++
		}
	}
	if err == nil {
		return showLabels(env, now, changed)
	}
	if len(found) > 1 {
		cli.Foresee(env, fmt.Sprintf("set labels of %s: %s", listing.Plural(len(found), "server"),
			strings.Join(words, " ")))
	}
	return err
}

// move shows what the environment would install on the servers, asks, and moves them.
func move(ctx context.Context, env *cli.Env, f work.DefaultsFlags, q *registryv1.MoveServersRequest) error {
	to := "environment " + q.GetEnvironment()
	if q.GetEnvironment() == "" {
		to = "no environment"
	}
	return work.ProposeDefaults(ctx, env, f, work.Defaults{
		Ask:      &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Move{Move: q}},
		Question: "Move to " + to + "?",
		Summary: func(r *registryv1.PlanDefaultsResponse) string {
			now, waiting := work.Installs(r.GetPlans())
			return fmt.Sprintf("%s would move to %s%s, with all their agents; by its defaults, agents that would be "+
				"installed: %d; that would wait: %d; that are there already: %d",
				listing.Plural(int(r.GetServers()), "server"), to, thereText(r.GetAlready()), now, waiting,
				r.GetPresent())
		},
		Do: func(ctx context.Context, sum []byte) error {
			q = proto.CloneOf(q)
			q.PlanSha256 = sum
			r, err := cli.Call[*registryv1.MoveServersResponse](ctx, env, q)
			if err == nil {
				env.Say("%s moved to %s%s", listing.Plural(int(r.GetMoved()), "server"), to, thereText(r.GetAlready()))
			}
			return err
		},
	})
}

// thereText returns how many servers need not move, or nothing.
func thereText(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d there already)", n)
}

// label changes the labels of a server.
func label(ctx context.Context, env *cli.Env, before display.Server, q *registryv1.ChangeServerRequest) (
	display.Server, error,
) {
	r, err := cli.Call[*registryv1.ChangeServerResponse](ctx, env, q)
	if err != nil {
		return nil, err
	}
	now := r.GetServer()
	for _, label := range q.GetUnsetLabels() {
		if _, ok := before.GetLabels()[label]; !ok {
			env.Say("note: %s- has no effect: server %s has no label of that name", label, now.GetName())
		}
	}
	return now, nil
}

// showLabels prints the servers whose labels were set, and how many of them changed.
func showLabels(env *cli.Env, now []display.Server, changed int) error {
	if len(now) == 0 {
		return nil
	}
	one, on := now[0], now[0].GetName()
	if len(now) > 1 {
		on = "SELECTOR"
	}
	if changed > 0 {
		env.Say("their agents see other labels once they are configured: garrison configure AGENT --on %s", on)
	}
	switch {
	case len(now) > 1:
		env.Say("%s changed, %d unchanged", listing.Plural(changed, "server"), len(now)-changed)
		return output.Show(env.Output, display.Servers, &registryv1.ListServersResponse{Servers: now}, now)
	case changed == 0:
		return cli.Changed(env, display.Servers, one, "server %s unchanged", one.GetName())
	}
	return cli.Changed(env, display.Servers, one, "server %s changed", one.GetName())
}

// changeOf parses LABEL=VALUE and LABEL- arguments.
func changeOf(server string, words []string) (*registryv1.ChangeServerRequest, error) {
	set, unset, err := selection.ParseLabels(words)
	if err != nil {
		return nil, cli.Usage("%v. Try: garrison server set %s rack=a", err, server)
	}
	return &registryv1.ChangeServerRequest{SetLabels: set, UnsetLabels: unset}, nil
}

// rename renames a server, and prints the command that takes it back.
func rename(ctx context.Context, env *cli.Env, server, name string) error {
	before, err := fleet.Server(ctx, env, server)
	if err != nil {
		return err
	}
	q := &registryv1.ChangeServerRequest{Server: before.GetId(), Name: &name}
	r, err := cli.Call[*registryv1.ChangeServerResponse](ctx, env, q)
	if err != nil {
		return err
	}
	if before.GetName() == name {
		return cli.Changed(env, display.Servers, r.GetServer(), "server %s unchanged", name)
	}
	return cli.Changed(env, display.Servers, r.GetServer(),
		"server %s (%s) is now %s; to take it back: garrison server set %s --name %s",
		before.GetName(), before.GetId(), name, name, before.GetName())
}
