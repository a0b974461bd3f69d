// Package image builds the commands of garrison image: build, sign and verify image files, transfer them to and from
// the catalog, and change their state there.
//
// An import is resumable: only chunks that the catalog lacks are sent, and a chunk that arrives twice changes nothing.
package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command image with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("image", "Build, transfer and manage images: immutable builds of "+
		"agents.", keyCommand(env), buildCommand(env),
		signCommand(env), importCommand(env), exportCommand(env), verifyCommand(env),
		listCommand(env), showCommand(env), activateCommand(env), disableCommand(env),
		deleteCommand(env), pruneCommand(env), promoteCommand(env))
}

// get returns an image by id, unique prefix or AGENT@VERSION.
func get(ctx context.Context, env *cli.Env, name string) (row, error) {
	r, err := cli.Call[*catalogv1.GetImageResponse](ctx, env, &catalogv1.GetImageRequest{Image: name})
	return r.GetImage(), err
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show IMAGE",
		Example: "  garrison image show beacon@1.0.0",
		Short:   "Show all fields of an image.", Args: cli.Exactly("IMAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			i, err := get(c.Context(), env, a[0])
			if err != nil {
				return err
			}
			run := i.GetManifest().GetRun()
			return output.ShowOne(env.Output, env.Output.View(), display.Images, i,
				[2]string{"TAGS", listing.Pairs(i.GetManifest().GetTags())},
				[2]string{"COMMAND", strings.Join(append([]string{run.GetCommand()}, run.GetArgs()...), " ")},
				[2]string{"TAKEOVER", listing.Word(run.GetTakeover())},
				[2]string{"CHUNKS", fmt.Sprint(len(i.GetManifest().GetBlob().GetChunkDigests()))})
		},
	}
}

func imageName(i row) string {
	return i.GetManifest().GetAgent() + "@" + i.GetManifest().GetVersion()
}

type row = display.Image

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	q := &catalogv1.ListImagesRequest{}
	var newer bool
	than := &registryv1.ListAvailableRequest{}
	c := &cobra.Command{
		Use:     "list [AGENT]",
		Example: "  garrison image list beacon --channel release\n  garrison image list --newer --env prod",
		Short:   "List images, or with --newer those that are newer than what servers have.", Args: cli.AtMost("AGENT"),
		Long: `List images. With --newer, list the images that are newer than what servers have: a row is an agent on
the servers of one environment and platform, NEWEST the highest version in the channel of the environment, which
garrison up AGENT brings, and BEHIND the number of instances that are wanted at a lower version.`,
		SuggestFor: []string{"available", "avail", "outdated", "newer", "updates", "upgradable"},
		RunE: func(c *cobra.Command, a []string) error {
			for _, name := range otherThan(newer) {
				if c.Flags().Changed(name) && newer {
					return cli.Usage("--newer and --%s exclude each other", name)
				} else if c.Flags().Changed(name) {
					return cli.Usage("--%s requires --newer", name)
				}
			}
			if len(a) > 0 {
				if strings.Contains(a[0], "@") {
					return cli.Usage("garrison image list takes an AGENT, not %q. Try: garrison image show %[1]s", a[0])
				}
				if err := cli.Name("agent")(a[0]); err != nil {
					return cli.Usage("%v. Try: garrison image list", err)
				}
				q.Agent, than.Agent = a[0], a[0]
			}
			if newer {
				return listNewer(c.Context(), env, page, than)
			}
			return cli.List(c.Context(), env, page, display.Images, cli.Ask[*catalogv1.ListImagesResponse](env, q))
		},
	}
	page.Add(c, 0)
	cli.TextVar(c.Flags(), &q.Channel, "channel", cli.Name("channel"), "only images in this `CHANNEL`")
	cli.WordVar(c.Flags(), &q.State, "state", "only those in this `STATE`")
	c.Flags().BoolVar(&q.Untrusted, "untrusted", false, "only images that no --image-key of the catalog signed")
	c.Flags().BoolVar(&newer, "newer", false, "list those that are newer than what servers have")
	cli.TextVar(c.Flags(), &than.Environment, "env", cli.Name("environment"), "with --newer: only on servers of this "+
		"`ENVIRONMENT`")
	c.Flags().BoolVar(&than.All, "all", false, "with --newer: also agents that have no newer image")
	return c
}

// otherThan returns the flags of the list that a list of newer images, or of all, does not have.
func otherThan(newer bool) []string {
	if newer {
		return []string{"channel", "state", "untrusted"}
	}
	return []string{"env", "all"}
}
