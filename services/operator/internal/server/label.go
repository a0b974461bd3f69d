package server

import (
	"context"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

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
		q.SetLabels[k] = v
	}
	return q, nil
}
