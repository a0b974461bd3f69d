package server

import (
	"context"

	"github.com/spf13/cobra"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

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
