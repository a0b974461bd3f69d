package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/apm"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// tritonText is what the help of image build says of agents of Triton.
const tritonText = `

With --triton, FILE is the archive of an agent of Triton, a tar archive behind gzip or bzip2, and MANIFEST its image
manifest of IMGAPI. Size, SHA-1 and image_uuid must be those of the manifest. The files, the name and the version are
kept as they are; the UUID becomes the tag triton.uuid. Nothing of the archive is executed. The start method of the
agent's SMF service becomes run.command, its environment and stop time-out as well; --run names another program of the
agent, --recipe a whole garrison.yaml. Without a service the image is of kind files. What has no place in an image, such
as scripts around the installation, is listed as skip, with the reason.`

// triton are the flags that make an image of an agent of Triton.
type triton struct {
	options apm.Options
	run     string
}

func (t *triton) add(c *cobra.Command) {
	cli.TextVar(c.Flags(), &t.options.Manifest, "triton", cli.NotEmpty("file"), "make the image of an agent of "+
		"Triton, whose `MANIFEST` this is")
	cli.TextVar(c.Flags(), &t.run, "run", cli.NotEmpty("program"), "with --triton: the `PROGRAM` of the agent that is "+
		"run, and its arguments, instead of the start method of its service")
	cli.TextVar(c.Flags(), &t.options.Recipe, "recipe", cli.NotEmpty("file"), "with --triton: use this "+
		image.RecipeName+" `FILE` instead of one that is derived")
	c.Flags().Var(cli.FlagValue{Read: func(text string) (err error) {
		t.options.Kind, err = listing.ParseWord[agentv1.Kind](text)
		if k := t.options.Kind; err == nil && k != agentv1.Kind_KIND_DAEMON && k != agentv1.Kind_KIND_ONESHOT &&
			k != agentv1.Kind_KIND_FILES {
			return fmt.Errorf("an agent of Triton is of kind daemon, oneshot or files")
		}
		return err
	}}, "kind", "with --triton: how the agent is run, `KIND`: daemon, oneshot or files (default: daemon with a "+
		"service, else files)")
}

// check refuses flags that do not go together.
func (t *triton) check(c *cobra.Command) error {
	for _, name := range []string{"run", "recipe", "kind"} {
		if t.options.Manifest == "" && c.Flags().Changed(name) {
			return cli.Usage("--%s requires --triton: in a directory, %s says it", name, image.RecipeName)
		}
	}
	switch {
	case t.options.Manifest != "" && c.Flags().Changed("version"):
		return cli.Usage("--version and --triton exclude each other: the version is that of the manifest")
	case t.options.Recipe != "" && (t.run != "" || t.options.Kind != agentv1.Kind_KIND_UNSPECIFIED):
		return cli.Usage("--recipe says how the agent is run; leave out --run and --kind")
	}
	return nil
}

// build makes the image of an archive, and says what of it has no place there.
func (t *triton) build(ctx context.Context, env *cli.Env, o image.BuildOptions, archive string) (manifest, error) {
	for _, path := range []string{t.options.Manifest, archive} {
		if err := cli.CheckPath(path, "garrison image build --help, which shows what they are"); err != nil {
			return nil, err
		}
	}
	t.options.Archive, t.options.Run, t.options.Build = archive, strings.Fields(t.run), o
	r, err := apm.Convert(ctx, t.options)
	if err != nil {
		return nil, err
	}
	for _, s := range r.Skipped {
		env.Say("skip: %s: %s", s.Name, s.Reason)
	}
	return r.Image, nil
}
