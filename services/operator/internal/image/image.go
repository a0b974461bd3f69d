package image

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command image with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("image", "Build, transfer and manage images: immutable builds of "+
		"agents.", keyCommand(env), buildCommand(env), fromTritonCommand(env),
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
			return output.ShowOne(env.Output, env.Output.View(), listing, i,
				[2]string{"TAGS", output.Pairs(i.GetManifest().GetTags())},
				[2]string{"COMMAND", strings.Join(append([]string{run.GetCommand()}, run.GetArgs()...), " ")},
				[2]string{"TAKEOVER", output.Word(run.GetTakeover())},
				[2]string{"CHUNKS", fmt.Sprint(len(i.GetManifest().GetBlob().GetChunkDigests()))})
		},
	}
}

func imageName(i row) string {
	return i.GetManifest().GetAgent() + "@" + i.GetManifest().GetVersion()
}
