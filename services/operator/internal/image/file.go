package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/image"
	"github.com/garrison-fleet/garrison/pkg/listing"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/apm"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/packages"
)

// fileText is the help of image build on files.
const fileText = `

FILE is a program (ELF, or a script with #!), a tar archive (plain, gzip, bzip2, xz or zstd), a Debian or an RPM
package. An archive with a garrison.yaml is packed like a directory. Otherwise the name and the version are those of
the package, or of a file name such as beacon-1.0.0.tar.gz, and the flags say the rest. Of a package, the systemd unit
becomes run, its configuration files become run.configs, and nothing is executed. Each part that an image does not have
is a line "note: CODE: PART: WHY", and garrison explain CODE explains it. The revision of a package becomes _REVISION:
1.5.0-1 is 1.5.0_1, which comes after 1.5.0.

With --triton, FILE is such an archive of an agent of Triton, and MANIFEST its image manifest of IMGAPI. Size, SHA-1 and
image_uuid must be those of the manifest. The files, the name and the version are kept as they are; the UUID becomes the
tag triton.uuid. Nothing of the archive is executed. The start method of the agent's SMF service becomes run.command,
its environment and stop time-out as well; --run names another program of the agent, --recipe a whole garrison.yaml.
Without a service the image is of kind files. What has no place in an image, such as scripts around the installation, is
listed as skip, with the reason.`

// file are the flags that make an image of a file.
type file struct {
	triton, recipe, run, agent, unit string

	kind agentv1.Kind
	show bool
}

func (f *file) add(c *cobra.Command) {
	cli.TextVar(c.Flags(), &f.triton, "triton", cli.NotEmpty("file"), "make the image of an agent of Triton, whose "+
		"`MANIFEST` this is")
	cli.TextVar(c.Flags(), &f.run, "run", cli.NotEmpty("program"), "with FILE: the `PROGRAM` in it that is run, and "+
		"its arguments, instead of what its service starts")
	cli.TextVar(c.Flags(), &f.recipe, "recipe", cli.NotEmpty("file"), "with FILE: use this "+image.RecipeName+
		" `RECIPE` instead of one that is derived")
	cli.TextVar(c.Flags(), &f.agent, "agent", func(s string) error { return ident.CheckName("agent", s) },
		"with FILE: the `NAME` of the agent")
	cli.TextVar(c.Flags(), &f.unit, "unit", cli.NotEmpty("unit"), "with a package of several services: the `UNIT` "+
		"that is run")
	c.Flags().BoolVar(&f.show, "show-recipe", false, "with FILE: print the "+image.RecipeName+" that is derived, for "+
		"--recipe, and build nothing")
	c.Flags().Var(cli.FlagValue{Read: func(text string) (err error) {
		f.kind, err = listing.ParseWord[agentv1.Kind](text)
		if k := f.kind; err == nil && k != agentv1.Kind_KIND_DAEMON && k != agentv1.Kind_KIND_ONESHOT &&
			k != agentv1.Kind_KIND_FILES {
			return fmt.Errorf("the agent of a file is of kind daemon, oneshot or files")
		}
		return err
	}}, "kind", "with FILE: how the agent is run, `KIND`: daemon, oneshot or files (default: as its service or its "+
		"program is, else files)")
}

// check refuses flags that do not go together, or with what is at the path.
func (f *file) check(c *cobra.Command, path string) error {
	isDir := false
	if info, err := os.Stat(path); err == nil {
		isDir = info.IsDir()
	}
	for _, name := range []string{"triton", "run", "recipe", "kind", "agent", "unit", "show-recipe"} {
		if isDir && c.Flags().Changed(name) {
			return cli.Usage("--%s requires a FILE: in a directory, %s says it", name, image.RecipeName)
		}
	}
	return f.exclusive(c)
}

// exclusive refuses flags that answer the same question.
func (f *file) exclusive(c *cobra.Command) error {
	switch {
	case f.triton != "" && (c.Flags().Changed("version") || f.agent != "" || f.unit != "" || f.show):
		return cli.Usage("--triton excludes --version, --agent, --unit and --show-recipe: the manifest says them")
	case f.recipe != "" && (f.run != "" || f.agent != "" || f.unit != "" || f.kind != agentv1.Kind_KIND_UNSPECIFIED):
		return cli.Usage("--recipe says how the agent is run; leave out --run, --kind, --agent and --unit")
	case f.run != "" && f.unit != "":
		return cli.Usage("--run and --unit exclude each other: both say what is run")
	}
	return nil
}

// build makes the image of what is at a path, and says what of it has no place there. With --show-recipe it returns
// nil.
func (f *file) build(ctx context.Context, env *cli.Env, o image.BuildOptions, path string) (manifest, error) {
	for _, p := range []string{f.triton, f.recipe, path} {
		if p == "" {
			continue
		}
		if err := cli.CheckPath(p, "garrison image build --help, which shows what is packed"); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		o.Dir = path
		return image.Build(ctx, o)
	case f.triton != "":
		return f.buildTriton(ctx, env, o, path)
	}
	r, err := packages.Convert(ctx, packages.Options{
		File: path, Agent: f.agent, Unit: f.unit, Kind: f.kind, Run: strings.Fields(f.run), Recipe: f.recipe,
		Show: f.show, Build: o,
	})
	for _, n := range r.Notes {
		env.Say("note: %s: %s: %s", n.Code, n.What, n.Why)
	}
	if err == nil && f.show {
		_, err = io.WriteString(env.Out, r.Recipe)
	}
	return r.Image, err
}

func (f *file) buildTriton(ctx context.Context, env *cli.Env, o image.BuildOptions, path string) (manifest, error) {
	r, err := apm.Convert(ctx, apm.Options{
		Manifest: f.triton, Archive: path, Kind: f.kind, Run: strings.Fields(f.run), Recipe: f.recipe, Build: o,
	})
	if err != nil {
		return nil, err
	}
	for _, s := range r.Skipped {
		env.Say("skip: %s: %s", s.Name, s.Reason)
	}
	return r.Image, nil
}
