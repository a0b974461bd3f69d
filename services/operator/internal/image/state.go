package image

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func activateCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.ActivateImageRequest{}
	c := &cobra.Command{
		Use:     "activate IMAGE",
		Example: "  garrison image activate beacon@1.1.0 --channel beta",
		Short:   "Verify an image and add it to a channel, so that it can be installed.",
		Args:    cli.Exactly("IMAGE"),
		PreRunE: cli.Prints(env, display.Images),
		RunE: func(c *cobra.Command, a []string) error {
			q.Image = a[0]
			before, _ := get(c.Context(), env, a[0]) // only decides how the outcome is said
			i, err := activate(c.Context(), env, q)
			if err != nil {
				return err
			}
			same := before.GetState() == i.GetState() && slices.Equal(before.GetChannels(), i.GetChannels())
			return cli.Changed(env, display.Images, i, "image %s %s", imageName(i), cli.Outcome(same, "activated"))
		},
	}
	cli.TextVar(c.Flags(), &q.Channel, "channel", cli.Name("channel"), "add it to this `CHANNEL` (default: those that "+
		"it is in; of one in none, the default channel)")
	return c
}

// activate makes an image installable. The catalog first reads back the whole content; until it is done, activate
// retries.
func activate(ctx context.Context, env *cli.Env, q *catalogv1.ActivateImageRequest) (row, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, activateWithin, cli.ErrWaited)
	defer cancel()
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	line := env.Live()
	defer line.End()
	line.Set("the catalog is checking the content")
	i, err := c.Activate(ctx, q.GetImage(), q.GetChannel())
	if err != nil {
		return nil, env.Left(ctx, err, "garrison image activate "+q.GetImage())
	}
	return i, nil
}

func disableCommand(env *cli.Env) *cobra.Command {
	q := &catalogv1.DisableImageRequest{}
	c := &cobra.Command{
		Use:     "disable IMAGE",
		Example: "  garrison image disable beacon@1.0.0 -m \"leaks memory\"",
		Short:   "Prevent new installations of an image.",
		Args:    cli.Exactly("IMAGE"),
		PreRunE: cli.Prints(env, display.Images),
		RunE: func(c *cobra.Command, a []string) error {
			q.Image = a[0]
			before, _ := get(c.Context(), env, a[0]) // only decides how the outcome is said
			r, err := cli.Call[*catalogv1.DisableImageResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			env.Say("to undo: garrison image activate %s", r.GetImage().GetManifest().GetId())
			return cli.Changed(env, display.Images, r.GetImage(), "image %s %s", imageName(r.GetImage()),
				cli.Outcome(before.GetState() == r.GetImage().GetState(), "disabled"))
		},
	}
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}

func deleteCommand(env *cli.Env) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:     "delete IMAGE",
		Example: "  garrison image delete beacon@1.0.0",
		Short:   "Delete an inactive image and its content.", Args: cli.Exactly("IMAGE"),
		Long: `Delete an inactive image and its content.

An image that servers run, want or need for a way back, that a default names, or whose agent has a rollout that has
not ended, is refused without --force: what is lost on a server could not be brought again.`,
		RunE: func(c *cobra.Command, a []string) error {
			if !force {
				if err := checkUnused(c.Context(), env, a[0]); err != nil {
					return err
				}
			}
			_, err := cli.Call[*catalogv1.DeleteImageResponse](c.Context(), env,
				&catalogv1.DeleteImageRequest{Image: a[0]})
			return cli.Deleted(env, "image", a[0], err)
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also an image that servers, defaults or rollouts need")
	return c
}

// checkUnused refuses an image that servers, defaults or rollouts need.
func checkUnused(ctx context.Context, env *cli.Env, reference string) error {
	i, err := get(ctx, env, reference)
	if err != nil {
		return err
	}
	u, err := readUse(ctx, env, i.GetManifest().GetAgent())
	if err != nil {
		return err
	}
	if why := u.why(i); why != "" {
		return fault.Refusef(fault.Conflict, code.InUse, "image %s cannot be deleted: %s", imageName(i), why).
			Try("garrison instance list --image " + i.GetManifest().GetId())
	}
	return nil
}
