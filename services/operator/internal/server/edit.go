package server

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func moveCommand(env *cli.Env) *cobra.Command {
	var f work.DefaultsFlags
	var on selector.Flags
	q := &registryv1.MoveServersRequest{}
	c := &cobra.Command{
		Use:   "move [SERVER]… --env ENVIRONMENT",
		Short: "Move servers to another environment; they get the agents that it wants and keep theirs.",
		Example: "  garrison server move web-1 web-2 --env prod\n" +
			"  garrison server move --on env=test --env none",
		RunE: func(c *cobra.Command, a []string) (err error) {
			if q.Environment == "" {
				return cli.Usage("--env is missing. Try: garrison server move SERVER --env ENVIRONMENT, or --env none")
			}
			if len(a) > 0 {
				on.On = append(on.On, strings.Join(a, ","))
			}
			if q.On, err = on.Selector(); err != nil {
				return err
			}
			if q.Environment == environment.None {
				q.Environment = ""
			}
			return move(c.Context(), env, f, q)
		},
	}
	cli.TextVar(c.Flags(), &q.Environment, "env", cli.Name("environment"), "the `ENVIRONMENT` to move to, or none")
	c.Flags().BoolVar(&q.AtOnce, "at-once", false, "also when the environment's defaults install agents on more than "+
		"100 of the servers, or it heals more than 100, at once and without waves")
	on.Add(c)
	f.Add(c)
	return c
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

func labelCommand(env *cli.Env) *cobra.Command {
	var into string
	c := &cobra.Command{
		Use:     "label SERVER [LABEL=VALUE | LABEL-]…",
		Example: "  garrison server label web-1 rack=a1 spare-",
		Short:   "Set labels (LABEL=VALUE), remove them (LABEL-), or move the server to another environment.",
		PreRunE: cli.Prints(env, display.Servers),
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 || len(a) == 1 && !c.Flags().Changed("env") {
				return cli.Usage(
					"garrison server label requires a server and a change. Try: garrison server label SERVER " +
						"LABEL=VALUE")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error {
			q, err := changeOf(a[0], a[1:])
			if err != nil {
				return err
			}
			if c.Flags().Changed("env") {
				q.Environment = &into
			}
			return label(c.Context(), env, q)
		},
	}
	cli.TextVar(c.Flags(), &into, "env", cli.OrEmpty(cli.Name("environment")), "move the server to this "+
		"`ENVIRONMENT`; an empty value means none")
	return c
}

// label changes the labels and the environment of a server, and reports whether anything changed.
func label(ctx context.Context, env *cli.Env, q *registryv1.ChangeServerRequest) error {
	before, err := fleet.Server(ctx, env, q.GetServer())
	if err != nil {
		return err
	}
	r, err := cli.Call[*registryv1.ChangeServerResponse](ctx, env, q)
	if err != nil {
		return err
	}
	now := r.GetServer()
	for _, label := range q.GetUnsetLabels() {
		if _, ok := before.GetLabels()[label]; !ok {
			env.Say("note: %s- has no effect: server %s has no label of that name", label, now.GetName())
		}
	}
	if maps.Equal(before.GetLabels(), now.GetLabels()) && before.GetEnvironment() == now.GetEnvironment() {
		return cli.Changed(env, display.Servers, now, "server %s unchanged", now.GetName())
	}
	if !maps.Equal(before.GetLabels(), now.GetLabels()) {
		env.Say("its agents see other labels once they are configured: garrison configure AGENT --on %s", now.GetName())
	}
	return cli.Changed(env, display.Servers, now, "server %s changed", now.GetName())
}

// changeOf parses LABEL=VALUE and LABEL- arguments.
func changeOf(server string, words []string) (*registryv1.ChangeServerRequest, error) {
	q := &registryv1.ChangeServerRequest{Server: server, SetLabels: map[string]string{}}
	for _, w := range words {
		if label, ok := strings.CutSuffix(w, "-"); ok && !strings.Contains(w, "=") && label != "" {
			q.UnsetLabels = append(q.UnsetLabels, label)
			continue
		}
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, cli.Usage("%q is not LABEL=VALUE or LABEL-. Try: garrison server label %s rack=a", w, server)
		}
		if had, ok := q.SetLabels[k]; ok && had != v {
			return nil, cli.Usage("label %s has two values, %q and %q. Try: garrison server label %s %s", k, had, v,
				server, w)
		}
		q.SetLabels[k] = v
	}
	return q, nil
}

func renameCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "rename SERVER NAME",
		Example: "  garrison server rename web-1 web-old",
		Short:   "Give a server another name; its id, labels and agents stay.",
		Long: `Give a server another name. Names are unique among servers that are not dead. The server keeps its id,
its labels and its agents; the host name of its machine, which it reports itself, does not change.`,
		SuggestFor: []string{"mv"},
		Args:       cli.Exactly("SERVER", "NAME"),
		PreRunE:    cli.Prints(env, display.Servers),
		RunE:       func(c *cobra.Command, a []string) error { return rename(c.Context(), env, a[0], a[1]) },
	}
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
		"server %s (%s) is now %s; to take it back: garrison server rename %s %s",
		before.GetName(), before.GetId(), name, name, before.GetName())
}
