package image

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/image"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// activateWithin bounds the catalog's verification of an image, which may have gigabytes.
const activateWithin = 10 * time.Minute

func importCommand(env *cli.Env) *cobra.Command {
	var atOnce bool
	var into string
	c := &cobra.Command{
		Use:     "import FILE",
		Example: "  garrison image import beacon.gimg --activate",
		Short:   "Upload an image file to the catalog; resumes after an interruption.",
		Args:    cli.Exactly("FILE"),
		PreRunE: cli.Prints(env, display.Images),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckPath(a[0], "garrison image build DIRECTORY --out FILE, which makes one"); err != nil {
				return err
			}
			i, err := importFile(c.Context(), env, a[0])
			if err != nil {
				return foreseeImport(env, a[0], atOnce || into != "", into, err)
			}
			if env.DryRun && !atOnce && into == "" {
				env.Say("would change nothing: image %s is in the catalog already", imageText(i.GetManifest()))
				return nil
			}
			sayUnfit(c.Context(), env, i)
			if !atOnce && into == "" {
				if i.GetState() != imagev1.State_STATE_ACTIVE {
					env.Say("to make it installable: garrison image activate %s", i.GetManifest().GetId())
				}
				return cli.Changed(env, display.Images, i, "image %s imported", imageName(i))
			}
			i, err = activate(c.Context(), env,
				&catalogv1.ActivateImageRequest{Image: i.GetManifest().GetId(), Channel: into})
			if err != nil {
				return err
			}
			return cli.Changed(env, display.Images, i, "image %s imported and activated", imageName(i))
		},
	}
	c.Flags().BoolVar(&atOnce, "activate", false, "activate it after the upload")
	cli.TextVar(c.Flags(), &into, "channel", cli.Name("channel"), "activate it in this `CHANNEL` (default: those "+
		"that it is in; of one in none, the default channel)")
	return c
}

// foreseeImport returns the error of an import. Of one that a dry run ended it says what would be done.
func foreseeImport(env *cli.Env, path string, activates bool, channel string, err error) error {
	if !errors.Is(err, client.ErrDryRun) {
		return err
	}
	f, e := image.Open(path)
	if e != nil {
		return e
	}
	defer func() { _ = f.Close() }()
	switch text := "import image " + imageText(f.Manifest()); {
	case !activates:
		cli.Foresee(env, text+"; nothing installs it until garrison image activate")
	case channel == "":
		cli.Foresee(env, text+" and activate it in the default channel")
	default:
		cli.Foresee(env, text+" and activate it in channel "+channel)
	}
	return err
}

// imageText returns the name of an image with its platform.
func imageText(m manifest) string {
	return m.GetAgent() + "@" + m.GetVersion() + " for " + display.Platform(m.GetPlatform())
}

// sayUnfit prints why no server can get an image, because of its agent. It only adds to what is shown, so that it says
// nothing where the agents cannot be listed.
func sayUnfit(ctx context.Context, env *cli.Env, i row) {
	all, err := fleet.Agents(ctx, env)
	if err != nil {
		return
	}
	name, kind := i.GetManifest().GetAgent(), listing.Word(i.GetManifest().GetKind())
	for _, a := range all {
		if a.GetName() != name {
			continue
		}
		if a.GetKind() != i.GetManifest().GetKind() {
			env.Say("note: no server gets this image: it is of kind %s, and agent %s is of kind %s", kind, name,
				listing.Word(a.GetKind()))
		}
		return
	}
	env.Say("note: no agent %s is defined yet; to define it: garrison agent create %s --kind %s", name, name, kind)
}

// importFile uploads the chunks that the catalog lacks. A repeated import uploads nothing.
func importFile(ctx context.Context, env *cli.Env, path string) (row, error) {
	c, err := env.Client(ctx)
	if err != nil {
		return nil, err
	}
	line := env.Live()
	defer line.End()
	return c.Import(ctx, path, func(t client.Transfer) {
		if t.Done == 0 && t.Present > 0 && !env.DryRun {
			env.Say("the catalog has %d of %s already", t.Present, listing.Plural(t.Chunks, "chunk"))
		}
		missing := t.Chunks - t.Present
		line.Set("sending %s %d of %s", listing.Bar(uint64(t.Done), uint64(missing)), t.Done,
			listing.Plural(missing, "chunk"))
	})
}

func exportCommand(env *cli.Env) *cobra.Command {
	var out string
	var dry bool
	c := &cobra.Command{
		Use:     "export IMAGE",
		Example: "  garrison image export beacon@1.0.0 --out beacon.gimg",
		Short:   "Download an image of the catalog to a file.", Args: cli.Exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckTarget(out); err != nil {
				return err
			}
			i, err := get(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			path := cmp.Or(out, image.FileName(i.GetManifest()))
			if dry {
				env.Say("would export image %s: %s", imageName(i), path)
				return cli.ShowRow(env, manifestListing, i.GetManifest())
			}
			if err := fetch(c.Context(), env, path, i.GetManifest()); err != nil {
				return err
			}
			cli.SayWritten(env, path)
			return cli.ShowRow(env, manifestListing, i.GetManifest())
		},
	}
	cli.OutVar(c.Flags(), &out, "the `FILE`; default AGENT-VERSION-OS-ARCH"+image.Extension)
	c.Flags().BoolVar(&dry, "dry-run", false, "show the image and the file; write nothing")
	return c
}

// fetch downloads an image to a file.
func fetch(ctx context.Context, env *cli.Env, path string, m manifest) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	line := env.Live()
	defer line.End()
	return c.Export(ctx, m, path, func(t client.Transfer) {
		line.Set("fetching %s %d of %s", listing.Bar(uint64(t.Done), uint64(t.Chunks)), t.Done,
			listing.Plural(t.Chunks, "chunk"))
	})
}
