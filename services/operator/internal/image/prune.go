package image

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// pruning is what image prune was asked for.
type pruning struct {
	agent       string
	keep        int           // how many active images of each agent and platform stay, the highest versions; 0: all
	olderThan   time.Duration // a state that is younger stays
	yes, dryRun bool
}

func pruneCommand(env *cli.Env) *cobra.Command {
	var p pruning
	c := &cobra.Command{
		Use:   "prune [AGENT]",
		Short: "Delete old images that no server runs or wants.",
		Long: `Delete images, with their content, that are disabled or were never activated. With --keep, also active
ones but the highest versions of each agent and platform; they are disabled first.

An image stays while a server runs or wants it, keeps it for a way back, or would need it to undo its last change;
while it is the highest version that a channel offers, or lies between that and a version that servers have and it
may not replace at once; while a default of an environment names its version; while a rollout of its agent has not
ended; and for the time of --older-than after its last change. An image that is deleted cannot be installed again:
an older change, or a removal, that needs it cannot be undone.`,
		Example: "  garrison image prune --dry-run\n  garrison image prune beacon --keep 5 --older-than 720h",
		Args:    cli.AtMost("AGENT"), PreRunE: cli.Prints(env, display.Images),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				if err := cli.Name("agent")(a[0]); err != nil {
					return cli.Usage("%v. Try: garrison image list", err)
				}
				p.agent = a[0]
			}
			return prune(c.Context(), env, p)
		},
	}
	c.Flags().Var(cli.ValueOf(&p.keep, readKeep, strconv.Itoa), "keep",
		"also delete active images, but the `NUMBER` of highest versions of each agent and platform")
	cli.TimeVar(c.Flags(), &p.olderThan, "older-than", 7*24*time.Hour, 0,
		"only images whose state is older than this `DURATION`")
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, "show what would be deleted; change nothing")
	c.Flags().BoolVarP(&p.yes, "yes", "y", false, "do not ask for confirmation")
	return c
}

func readKeep(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a whole number from 1", text)
	}
	return n, nil
}

func prune(ctx context.Context, env *cli.Env, p pruning) error {
	all, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{Agent: p.agent})
	if err != nil {
		return err
	}
	used, err := readUse(ctx, env, p.agent)
	if err != nil {
		return err
	}
	old := p.old(all.GetImages(), used, env.Now())
	if p.dryRun {
		return output.Show(env.Output, display.Images, &catalogv1.ListImagesResponse{Images: old}, old)
	}
	if len(old) == 0 {
		env.Say("nothing to delete: %s looked at", listing.Plural(len(all.GetImages()), "image"))
		return nil
	}
	columns, _ := listing.Chosen(nil, false, display.Images.Columns)
	if err := output.PrintFitted(env.Messages(), env.Output.View(), columns, old); err != nil {
		return err
	}
	question := "Delete " + listing.Plural(len(old), "image") + " and their content?"
	if err := env.Confirm(ctx, p.yes, question); err != nil {
		return err
	}
	return deleteUnused(ctx, env, p, old)
}

// deleteUnused disables images, so that nothing new wants them, looks again at what is used, and deletes the others. An
// image whose state changed since stays: it may have been activated, and wanted, after that look.
func deleteUnused(ctx context.Context, env *cli.Env, p pruning, old []row) error {
	for n, i := range old {
		if i.GetState() != imagev1.State_STATE_ACTIVE {
			continue
		}
		r, err := cli.Call[*catalogv1.DisableImageResponse](ctx, env,
			&catalogv1.DisableImageRequest{Image: i.GetManifest().GetId(), Reason: "image prune"})
		if err != nil {
			return err
		}
		old[n] = r.GetImage()
	}
	used, err := readUse(ctx, env, p.agent)
	if err != nil {
		return err
	}
	deleted := 0
	for _, i := range old {
		if id := i.GetManifest().GetId(); used.has(i) {
			env.Say("image %s is used since, so it is not deleted: garrison image activate %s", imageName(i), id)
			continue
		}
		_, err := cli.Call[*catalogv1.DeleteImageResponse](ctx, env,
			&catalogv1.DeleteImageRequest{Image: i.GetManifest().GetId(), IfSince: i.GetSince()})
		switch {
		case fault.RefusalOf(err).GetCode() == code.RevisionChanged:
			env.Say("image %s is not deleted: %v", imageName(i), err)
			continue
		case err != nil:
			return err
		}
		deleted++
	}
	env.Say("%s deleted", listing.Plural(deleted, "image"))
	return nil
}

// old returns the images that may be deleted.
func (p pruning) old(images []row, used use, now time.Time) (out []row) {
	newest := slices.SortedStableFunc(slices.Values(images), func(a, b row) int {
		return cmp.Or(cmp.Compare(a.GetManifest().GetAgent(), b.GetManifest().GetAgent()),
			version.Compare(b.GetManifest().GetVersion(), a.GetManifest().GetVersion()),
			cmp.Compare(a.GetManifest().GetId(), b.GetManifest().GetId()))
	})
	kept, offered := map[string]int{}, used.offered(images)
	for _, i := range newest {
		if i.GetState() == imagev1.State_STATE_ACTIVE {
			if kept[kindOf(i)]++; p.keep == 0 || kept[kindOf(i)] <= p.keep {
				continue
			}
		}
		if !used.has(i) && !offered[i.GetManifest().GetId()] && now.Sub(i.GetSince().AsTime()) >= p.olderThan {
			out = append(out, i)
		}
	}
	return out
}

// kindOf returns the agent and the platform of an image.
func kindOf(i row) string {
	return i.GetManifest().GetAgent() + " " + display.Platform(i.GetManifest().GetPlatform())
}
