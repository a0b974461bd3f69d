// Package intent builds the commands of garrison intent, list and show, and withdraws intents.
package intent

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command intent with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("intent", "Show intents: requests and their outcomes.", listCommand(env), showCommand(env))
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show INTENT",
		Example: "  garrison intent show 0f0e5a38-5d6c-4b7e-9f6b-3d0f6f2f5a11",
		Short:   "Show an intent: the request, its actor, the decision and the progress.",
		Args:    cli.OneIntent,
		RunE:    func(c *cobra.Command, a []string) error { return show(c.Context(), env, a[0]) },
	}
}

func show(ctx context.Context, env *cli.Env, id string) error {
	r, err := fleet.Intent(ctx, env, id, 0)
	if err != nil {
		return err
	}
	pairs := [][2]string{{"REASONS", strings.Join(display.ReasonLines(r.GetReasons()),
		"\n")}, {"SERVERS", serversText(r)}}
	if env.Output.IsTable() {
		p, err := progressOf(ctx, env, r)
		if err != nil {
			env.Say("the progress is unknown: %v", err)
		}
		if p != nil {
			pairs = append(pairs, [2]string{"PROGRESS", display.ProgressText(p.GetCounts())})
		}
	}
	if r.GetIntent().GetRollout() != nil && r.GetState() == intentv1.State_STATE_ACCEPTED {
		pairs = append(pairs, [2]string{"PROGRESS", "garrison rollout show " + ident.Handle(r.GetId())})
	}
	if r.GetWithdrawnAt() != nil {
		withdrawn := fmt.Sprintf("%s by %s %s", listing.Stamp(r.GetWithdrawnAt()), r.GetWithdrawnBy(),
			r.GetWithdrawnReason())
		pairs = append(pairs, [2]string{"WITHDRAWN", strings.TrimSpace(withdrawn)})
	}
	return output.ShowOne(env.Output, env.Output.View(), display.Records, r, pairs...)
}

// serversText lists the first servers of an intent and the number of the others.
func serversText(r display.Record) string {
	text := strings.Join(r.GetServerIds(), "\n")
	if more := int(r.GetChanged()) - len(r.GetServerIds()); more > 0 && len(r.GetServerIds()) > 0 {
		text += fmt.Sprintf("\n… and %d more: %s --limit all", more, display.TasksOf(r))
	}
	return text
}
