// Package block builds the commands garrison block and garrison unblock.
package block

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Command returns the command block.
func Command(env *cli.Env) *cobra.Command {
	c := addCommand(env)
	c.Short = "Keep a bad image or configuration from further servers."
	c.Long = `Keep a bad image or configuration from further servers. A build, which is the content of an image on a
platform or a configuration of an agent, is blocked by the registry when it failed on several servers (flag
--block-after of the registry) and on at least one in five of those that got it, or when it failed on two servers of a
rollout that halted because of it, and by an operator with this command. No install, upgrade, configuration, default or
rollout brings it to a server on which it does not run already: plans leave these servers out with the code BLOCKED, and
a rollout of it halts. An undo may go back to it. All images of the version are blocked, one image, or one
configuration. To lift a block: garrison unblock.`
	c.AddCommand(listCommand(env))
	c.SuggestFor = []string{"blocklist", "ban", "deny", "blacklist"}
	return c
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	q := record.List(ledger.Block)
	c := &cobra.Command{
		Use: "list [AGENT]", Example: "  garrison block list\n  garrison block list beacon -o wide",
		Short: "List what is blocked, with who blocked it and why.", Args: cli.AtMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				q.Agent = a[0]
			}
			return cli.List(c.Context(), env, page, display.Blocks, cli.Ask[*registryv1.ListRecordsResponse](env, q))
		},
	}
	page.Add(c, 0)
	c.Flags().BoolVar(&q.Suspected, "suspected", false,
		"list builds that failed on servers and are not blocked instead")
	return c
}

func addCommand(env *cli.Env) *cobra.Command {
	q := &registryv1.AddBlocksRequest{}
	c := &cobra.Command{
		Use: "block AGENT@VERSION | AGENT --image IMAGE | AGENT --configuration DIGEST",
		Example: "  garrison block beacon@1.1.0 -m \"it leaks memory\"\n" +
			"  garrison block beacon --image 1a2b3c4d -m \"arm64 only\"",
		Args: cli.Subject("AGENT"), PreRunE: cli.Prints(env, display.Blocks),
		RunE: func(c *cobra.Command, a []string) error {
			q.Agent, q.Version, _ = strings.Cut(a[0], "@")
			if err := ident.CheckName("agent", q.Agent); err != nil {
				return cli.Usage("%v", err)
			}
			if q.Reason == "" {
				return cli.Usage("say why. Try: garrison block %s -m WHY", a[0])
			}
			r, err := cli.Call[*registryv1.AddBlocksResponse](c.Context(), env, q)
			if err != nil {
				return err
			}
			env.Say("%s", addedText(r, q.GetAgent()))
			for _, b := range r.GetBlocks() {
				env.Say("to lift it: garrison unblock %s -m WHY", ident.Short(b.GetId()))
			}
			return output.Show(env.Output, display.Blocks, r.GetBlocks(), r.GetBlocks())
		},
	}
	cli.TextVar(c.Flags(), &q.ImageId, "image", cli.IDPrefix("an image"),
		"block only this `IMAGE`, by id or the beginning of it")
	cli.TextVar(c.Flags(), &q.ConfigurationDigest, "configuration", cli.Digest,
		"block the configuration with this `DIGEST`")
	cli.NoteVar(c.Flags(), &q.Reason)
	return c
}

// addedText returns what a request to block builds of an agent did. A block that was there keeps its reason.
func addedText(r *registryv1.AddBlocksResponse, agent string) string {
	already := int(r.GetAlready())
	text := listing.Plural(len(r.GetBlocks())-already, "build") + " of " + agent + " blocked"
	if already == len(r.GetBlocks()) && already > 0 {
		text = "nothing changed"
	}
	if already > 0 {
		text += "; " + listing.Plural(already, "build") + " of " + agent + " blocked before, for the reason given then"
	}
	return text
}

// UnblockCommand returns the command unblock.
func UnblockCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "unblock BLOCK", Example: "  garrison unblock 1a2b3c4d -m \"the disks were bad, not the build\"",
		Short: "Lift a block; failures are counted anew.", SuggestFor: []string{"lift"},
		Args: cli.Exactly("BLOCK"), PreRunE: cli.Prints(env, display.Blocks),
		RunE: func(c *cobra.Command, a []string) error {
			if !c.Flags().Changed("message") {
				return cli.Usage("say why. Try: garrison unblock %s -m WHY", a[0])
			}
			lifted, err := cli.Delete[*blockv1.Block](c.Context(), env, record.Delete(ledger.Block, a[0], 0))
			if err != nil {
				return err
			}
			for _, b := range lifted {
				err = cli.Changed(env, display.Blocks, b, "%s is no longer blocked", display.BuildText(b.GetBuild()))
			}
			return err
		},
	}
}
