package image

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/image"

	"github.com/garrison-fleet/garrison/services/operator/internal/apm"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

const fromTritonLong = `Build an image file from an agent of Triton: the image manifest of IMGAPI, and its file, a tar
archive behind gzip or bzip2. Size, SHA-1 and image_uuid must be those of the manifest. The files, the name and the
version are kept as they are; the UUID becomes the tag triton.uuid. Nothing of the archive is executed.

The start method of the agent's SMF service becomes run.command, its environment and stop time-out as well; --run
names another program of the agent, --recipe a whole garrison.yaml. Without a service the image is of kind files. What
has no place in an image, such as scripts around the installation, is listed as skip, with the reason.`

func fromTritonCommand(env *cli.Env) *cobra.Command {
	o := apm.Options{}
	var run, key string
	c := &cobra.Command{
		Use:   "from-triton MANIFEST FILE",
		Short: "Build an image file from an agent of Triton.",
		Args:  cli.Exactly("MANIFEST", "FILE"),
		Long:  fromTritonLong,
		Example: "  garrison image from-triton net-agent.imgmanifest net-agent.tgz\n" +
			"  garrison image from-triton agent.json agent.tgz --run 'bin/agent -f etc/agent.json' -o agent.gimg",
		RunE: func(c *cobra.Command, a []string) (err error) {
			if err := cli.CheckTarget(o.Build.Out); err != nil {
				return err
			}
			for _, path := range a {
				err := cli.CheckPath(path, "garrison image from-triton --help, which shows what they are")
				if err != nil {
					return err
				}
			}
			o.Manifest, o.Archive, o.Run, o.Build.At = a[0], a[1], strings.Fields(run), env.Now()
			if o.Recipe != "" && (run != "" || o.Kind != agentv1.Kind_KIND_UNSPECIFIED) {
				return cli.Usage("--recipe says how the agent is run; leave out --run and --kind")
			}
			if key != "" {
				if o.Build.Key, err = readKey(key); err != nil {
					return err
				}
			}
			r, err := apm.Convert(c.Context(), o)
			if err != nil {
				return err
			}
			for _, s := range r.Skipped {
				env.Say("skip: %s: %s", s.Name, s.Reason)
			}
			m := r.Image
			env.Say("image %s@%s built: %s, %s", m.GetAgent(), m.GetVersion(), cmp.Or(o.Build.Out, image.FileName(m)),
				output.Size(m.GetBlob().GetSizeBytes()))
			return output.Show(env.Output, manifestListing, nil, []manifest{m})
		},
	}
	c.Flags().StringVarP(&o.Build.Out, "output", "o", "",
		"the image `FILE`; default AGENT-VERSION-OS-ARCH"+image.Extension)
	cli.TextVar(c.Flags(), &key, "key", cli.NotEmpty("file with a key"), "sign the image with the secret half of a "+
		"key, in this `FILE`")
	cli.TextVar(c.Flags(), &run, "run", cli.NotEmpty("program"), "the `PROGRAM` of the agent that is run, and its "+
		"arguments, instead of the start method of its service")
	cli.TextVar(c.Flags(), &o.Recipe, "recipe", cli.NotEmpty("file"), "use this "+image.RecipeName+" `FILE` instead "+
		"of one that is derived")
	cli.TextVar(c.Flags(), &o.Build.OS, "os", image.CheckOS, "the operating `SYSTEM` that the programs are for "+
		"(default: this machine's)")
	cli.TextVar(c.Flags(), &o.Build.Arch, "arch", image.CheckArch, "the `ARCHITECTURE` that they are for (default: "+
		"this machine's)")
	c.Flags().Var(cli.FlagValue{Read: func(text string) (err error) {
		o.Kind, err = output.ParseWord[agentv1.Kind](text)
		if err == nil && o.Kind != agentv1.Kind_KIND_DAEMON && o.Kind != agentv1.Kind_KIND_ONESHOT &&
			o.Kind != agentv1.Kind_KIND_FILES {
			return fmt.Errorf("an agent of Triton is of kind daemon, oneshot or files")
		}
		return err
	}}, "kind", "how the agent is run, `KIND`: daemon, oneshot or files (default: daemon with a service, else files)")
	return c
}
