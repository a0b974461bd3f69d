package image

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/seal"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func buildCommand(env *cli.Env) *cobra.Command {
	o := image.BuildOptions{}
	var key string
	c := &cobra.Command{
		Use:   "build DIR",
		Short: "Pack a directory with a " + image.RecipeName + " into an image file.",
		Args:  cli.Exactly("DIR"),
		Long:  recipeText,
		Example: "  garrison image build ./beacon\n" +
			"  garrison image build ./beacon --version 1.1.0 -o beacon.gimg",
		RunE: func(c *cobra.Command, a []string) error {
			o.Dir, o.At = a[0], env.Now()
			err := cli.FirstError(cli.CheckTarget(o.Out), cli.CheckDirectory(o.Dir,
				"garrison image build --help, which shows a directory"))
			if err != nil {
				return err
			}
			if key != "" {
				if o.Key, err = readKey(key); err != nil {
					return err
				}
			}
			o.Note = func(text string) { env.Say("note: %s", text) }
			m, err := image.Build(c.Context(), o)
			if err != nil {
				return err
			}
			env.Say("image %s@%s built: %s, %s", m.GetAgent(), m.GetVersion(), cmp.Or(o.Out, image.FileName(m)),
				output.Size(m.GetBlob().GetSizeBytes()))
			return output.Show(env.Output, manifestListing, nil, []manifest{m})
		},
	}
	c.Flags().
		StringVarP(&o.Out, "output", "o", "", "the image `FILE`; default AGENT-VERSION-OS-ARCH"+image.Extension)
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "sign the image with the secret half of a "+
		"key, in this `FILE`")
	cli.TextVar(c.Flags(), &o.Version, "version", image.CheckVersion, "override the `VERSION` of the recipe")
	cli.TextVar(c.Flags(), &o.OS, "os", image.CheckOS, "override the operating `SYSTEM` of the recipe")
	cli.TextVar(c.Flags(), &o.Arch, "arch", image.CheckArch, "override the `ARCHITECTURE` of the recipe")
	return c
}

type manifest = *imagev1.Manifest

// manifestListing lists image files, which have no state.
var manifestListing = output.Listing[manifest]{
	Name: func(m manifest) string { return m.GetId() },
	Columns: []output.Column[manifest]{
		output.Col("ID", manifest.GetId),
		output.Col("AGENT", manifest.GetAgent),
		output.Col("VERSION", manifest.GetVersion),
		output.Col("PLATFORM", func(m manifest) string { return display.Platform(m.GetPlatform()) }),
		output.Col("KIND", func(m manifest) string { return output.Word(m.GetKind()) }),
		output.Col("SIZE", func(m manifest) string { return output.Size(m.GetBlob().GetSizeBytes()) }),
		output.Wide("SIGNED BY", signers),
		output.Wide("DIGEST", func(m manifest) string { return fmt.Sprintf("%x", m.GetBlob().GetDigest()) }),
	},
}

func verifyCommand(env *cli.Env) *cobra.Command {
	var keys []string
	c := &cobra.Command{
		Use:     "verify FILE",
		Example: "  garrison image verify beacon.gimg",
		Short:   "Check every byte of an image file against its manifest.", Args: cli.Exactly("FILE"),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckPath(a[0], "garrison image build DIRECTORY -o FILE, which makes one"); err != nil {
				return err
			}
			f, err := image.Open(a[0])
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			if err := f.Verify(c.Context()); err != nil {
				return err
			}
			if len(keys) == 0 {
				return cli.Changed(env, manifestListing, f.Manifest(), "%s is whole", a[0])
			}
			if err := seal.Trust(f.Manifest(), keys); err != nil {
				return err
			}
			return cli.Changed(env, manifestListing, f.Manifest(), "%s is whole and signed", a[0])
		},
	}
	cli.NamesVar(c.Flags(), &keys, "image-key", seal.CheckKey,
		"require a signature by one of these public `KEYS`; repeatable")
	return c
}
