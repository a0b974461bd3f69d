package importer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

const tritonLong = `Read dumps of a Triton data centre and bring what they hold into the inventory: applications and
services of SAPI, servers of CNAPI or their sysinfo, and manifests of IMGAPI. DIR is searched, with the directories in
it, for JSON files: arrays, one object a line, or single objects, as sdc-sapi, sdc-cnapi and sdc-imgapi print them.
What an object is, its fields say, not the name of its file.

Names, versions and UUIDs stay as they are. A server is invited under its UUID, with labels made of its record; with
--invite a token for each is written, and the executor that joins with it is that server. What cannot be imported is
listed as skip, with its reason. The plan is shown first and must be confirmed. A second import changes nothing; a
value that was changed in Garrison since stays, with a note.

Without --install no agent is installed; what runs where is counted as wanted. With --install each agent that the dump
has on a server becomes an instance at the same version: an intent installs it where the server has joined, does not
have the agent, and the catalog has the image. Where the server has not joined yet it is listed as expect, and the same
import installs it later. What a server says of itself counts more than what SAPI says, and no version ever changes. An
agent that runs and is to be taken over without a restart: garrison instance adopt. With --wanted the environment of
--env gets a default for each agent whose image is in the catalog, and servers get the agents as they join.`

// tritonFlags are the flags of garrison import triton.
type tritonFlags struct {
	flags
	options  triton.Options
	wanted   bool
	installs bool
	channel  string
}

func tritonCommand(env *cli.Env) *cobra.Command {
	f := &tritonFlags{options: triton.Options{Kinds: map[string]agentv1.Kind{}}}
	c := &cobra.Command{
		Use:   "triton DIR",
		Short: "Import applications, agents, servers and images from dumps of Triton.",
		Long:  tritonLong,
		Example: "  garrison import triton ./dump --dry-run\n" +
			"  garrison import triton ./dump --invite ./tokens --env prod",
		Args:    cli.Exactly("DIR"),
		PreRunE: cli.Prints(env, inventory.Listing),
		RunE: func(c *cobra.Command, a []string) error {
			if f.wanted && f.environment == "" {
				return cli.Usage("--wanted needs --env ENVIRONMENT, whose defaults it sets")
			}
			if err := cli.CheckPath(a[0], "a directory with dumps: garrison import triton --help"); err != nil {
				return err
			}
			return f.run(c.Context(), env, a[0])
		},
	}
	f.add(c, "triton")
	c.Flags().BoolVar(&f.wanted, "wanted", false, "set defaults of the environment for the agents that are wanted")
	c.Flags().BoolVar(&f.installs, "install", false, "install what the dump has on servers that joined and lack it")
	c.Flags().BoolVar(&f.options.Undeclared, "undeclared", false, "import agents that servers have and no service "+
		"declares")
	cli.TextVar(c.Flags(), &f.options.Reporter, "reporter", cli.Name("user"), "import services of virtual machines as "+
		"agents of kind external, which this `USER` reports")
	cli.TextVar(c.Flags(), &f.channel, "channel", cli.Name("channel"), "activate imported images in this `CHANNEL` "+
		"(default: the default channel)")
	c.Flags().Var(cli.FlagValue{Read: f.readKind}, "kind", "how an agent is run, `AGENT=KIND`: "+
		strings.Join(listing.Words(agentv1.Kind_KIND_DAEMON.Descriptor()), ", ")+"; repeatable (default: daemon)")
	return c
}

// readKind reads one pair of --kind.
func (f *tritonFlags) readKind(text string) error {
	agent, word, _ := strings.Cut(text, "=")
	if err := ident.CheckName("agent", agent); err != nil {
		return err
	}
	kind, err := listing.ParseWord[agentv1.Kind](word)
	f.options.Kinds[agent] = kind
	return err
}

func (f *tritonFlags) run(ctx context.Context, env *cli.Env, dir string) error {
	files, err := readDump(env, dir)
	if err != nil {
		return err
	}
	dump, err := triton.Read(files.read)
	if err != nil {
		return err
	}
	live, err := inventory.Read(ctx, env, declare.Kinds...)
	if err != nil {
		return err
	}
	o := f.options
	o.Owner, o.Environment, o.Files, o.Live = f.owner, f.environment, files.others, live
	if f.wanted {
		o.Catalog = func(agent string) ([]string, error) { return versionsOf(ctx, env, agent) }
	}
	r, err := dump.Objects(o)
	if err != nil {
		return err
	}
	uploads, skipped, err := uploadsOf(ctx, env, dir, r.Images)
	if err != nil {
		return err
	}
	var next installs
	if f.installs {
		s, err := readSite(ctx, env, live, r.Placed, uploads)
		if err != nil {
			return err
		}
		next = s.plan(r.Placed)
		if err := next.check(f.AtOnce); err != nil {
			return err
		}
	}
	err = f.flags.run(ctx, env, r.Set, live, func(plan *declare.Plan) {
		plan.Skipped = slices.Concat(plan.Skipped, r.Skipped, skipped, next.skipped)
		plan.Shown = slices.Concat(wantedRows(r.Wanted), uploadRows(uploads), next.shown)
	})
	if err != nil || f.DryRun {
		return err
	}
	if err := f.upload(ctx, env, uploads); err != nil {
		return err
	}
	return f.install(ctx, env, next)
}

// wantedRows returns what is wanted where, as lines of a plan.
func wantedRows(all []triton.Wanted) (out []declare.Shown) {
	for _, w := range all {
		out = append(out, declare.Shown{
			Action: "wanted", Kind: declare.Agents.Word, Name: w.Agent, Field: "version", After: w.Version,
			Note: fmt.Sprintf("on %s", listing.Plural(w.Servers, "server")),
		})
	}
	return out
}

// versionsOf returns the versions of an agent's images.
func versionsOf(ctx context.Context, env *cli.Env, agent string) (out []string, err error) {
	r, err := cli.All[*catalogv1.ListImagesResponse](ctx, env, &catalogv1.ListImagesRequest{Agent: agent})
	for _, i := range r.GetImages() {
		out = append(out, i.GetManifest().GetVersion())
	}
	return out, err
}

// within returns the path of a file of a dump.
func within(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
