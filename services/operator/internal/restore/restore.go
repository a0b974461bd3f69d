// Package restore builds the commands of garrison restore, for the time after a backup of the control plane was
// restored.
package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/selection"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

type (
	loss          = *registryv1.ServerLoss
	restoreStatus = *registryv1.GetRestoreStatusResponse
)

// Commands returns the command restore with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	c := statusCommand(env)
	c.AddCommand(acceptCommand(env))
	return c
}

// optionalSelector parses the values of --on; without one it returns nil, which selects every server.
func optionalSelector(on []string) (*intentv1.Selector, error) {
	if len(on) == 0 {
		return nil, nil
	}
	return selection.Parse(on)
}

// acceptedAtOnce is the number of losses per request.
const acceptedAtOnce = 500

func acceptCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	var revocations bool
	c := &cobra.Command{
		Use: "accept --on SELECTOR | --revocations", Args: cli.Exactly(),
		Short: "Accept what a restore lost: of the history of servers, so that they follow the ledger, or revocations.",
		Long: `Show what accepting does to each server that is ahead of the ledger, ask for confirmation, and raise its
epoch: the server then takes its document again and brings its agents to what the ledger wants. The loss cannot be
undone. With --revocations, show which revocations the last restore of a backup may have lost, ask, and no longer show
them in garrison status; it changes nothing about who may connect.`,
		Example: "  garrison restore accept --on web-1 --dry-run\n  garrison restore accept --on all --yes\n" +
			"  garrison restore accept --revocations",
		RunE: func(c *cobra.Command, _ []string) error {
			if revocations {
				if c.Flags().Changed("on") || c.Flags().Changed("not") {
					return cli.Usage("--revocations and --on exclude each other")
				}
				return confirm(c.Context(), env, w)
			}
			on, err := w.Servers.Selector()
			if err != nil {
				return err
			}
			return accept(c.Context(), env, w, on)
		},
	}
	w.Servers.Add(c)
	c.Flags().BoolVar(&revocations, "revocations", false, "accept which revocations may be lost")
	c.Flags().BoolVar(&w.DryRun, "dry-run", false, "show what would be done; change nothing")
	w.AddYes(c)
	return c
}

func accept(ctx context.Context, env *cli.Env, w work.Flags, on *intentv1.Selector) error {
	if err := cli.Prints(env, display.Servers)(nil, nil); err != nil && !w.DryRun {
		return err
	}
	status, err := status(ctx, env, on)
	if err != nil {
		return err
	}
	losses := status.GetLosses()
	if len(losses) == 0 {
		meant := strings.TrimPrefix(selection.Args(on), "--on ")
		return cli.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: code.NotAhead, Try: "garrison restore",
			Message: fmt.Sprintf("no server of %s is ahead of the ledger, which ends at %d", meant,
				status.GetLedgerEnd()),
		})
	}
	rows := lossRows(env, losses)
	env.Say("%s: the lost history cannot be recovered; %s", listing.Plural(len(losses), "server"), changesText(losses))
	if w.DryRun {
		return output.Show(env.Output, display.Explanations, display.ExplanationList{Explained: rows}, rows)
	}
	if err := output.PrintFitted(env.Messages(), env.Output.View(), display.Explanations.Columns,
		rows[:min(len(rows), work.PlanRows)]); err != nil {
		return err
	}
	if n := len(rows) - work.PlanRows; n > 0 {
		env.Say("… and %d more rows: --dry-run shows all", n)
	}
	if err := env.Confirm(ctx, w.Yes, "Accept?"); err != nil {
		return err
	}
	return sendAccepted(ctx, env, losses)
}

// changesText counts what accepting does to agents.
func changesText(losses []loss) string {
	var n [4]int
	for _, l := range losses {
		for _, a := range l.GetAgents() {
			n[a.GetChange()]++
		}
	}
	return fmt.Sprintf("%s would be replaced, %d installed, %d removed; %d unknown to the ledger stay",
		listing.Plural(n[2], "agent"), n[1], n[3], n[0])
}

// sendAccepted accepts losses, acceptedAtOnce per request.
func sendAccepted(ctx context.Context, env *cli.Env, losses []loss) error {
	whole := &registryv1.AcceptRestoreResponse{}
	for part := range slices.Chunk(losses, acceptedAtOnce) {
		q := &registryv1.AcceptRestoreRequest{}
		for _, l := range part {
			lost := l.GetServer()
			q.Losses = append(q.Losses,
				&registryv1.AcceptedLoss{ServerId: lost.GetId(), Place: lost.GetAhead().GetPlace()})
		}
		r, err := cli.Call[*registryv1.AcceptRestoreResponse](ctx, env, q)
		if err != nil {
			if n := len(whole.GetServers()); n > 0 {
				env.Say("%s were accepted before the failure; garrison restore shows the "+
					"rest", listing.Plural(n, "loss"))
				return cli.Exit{Code: cli.ExitPartly, Err: err}
			}
			return err
		}
		whole.Servers = append(whole.Servers, r.GetServers()...)
	}
	n := len(whole.GetServers())
	env.Say("%s accepted; to follow: garrison restore, garrison instance list", listing.Plural(n, "server"))
	return output.Show(env.Output, display.Servers, whole, whole.GetServers())
}

// confirm shows which revocations the last restore may have lost, asks, and no longer shows them in garrison status.
func confirm(ctx context.Context, env *cli.Env, w work.Flags) error {
	r, err := restored(ctx, env)
	if err != nil {
		return err
	}
	if r == nil {
		return cli.Refuse(fault.NotFound, &apiv1.Refusal{
			Code: code.NothingRestored, Message: "no restore of a backup waits for a confirmation",
			Try: "garrison restore",
		})
	}
	env.Say("%s", restoredText(r))
	if w.DryRun {
		return nil
	}
	if err := env.Confirm(ctx, w.Yes, "Accept?"); err != nil {
		return err
	}
	q := &accessv1.ConfirmRestoredRequest{RestoredAt: r.RestoredAt}
	if _, err := cli.Call[*accessv1.ConfirmRestoredResponse](ctx, env, q); err != nil {
		return err
	}
	env.Say("accepted")
	return nil
}

// restored returns the last restore, or nil when none waits for a confirmation.
func restored(ctx context.Context, env *cli.Env) (*accessv1.Restored, error) {
	r, err := cli.Call[*accessv1.GetRestoredResponse](ctx, env, &accessv1.GetRestoredRequest{})
	return r.GetRestored(), err
}

// sayRestored prints which revocations may be lost, if a restore waits for a confirmation.
func sayRestored(ctx context.Context, env *cli.Env) error {
	r, err := restored(ctx, env)
	if err == nil && r != nil {
		env.Say("%s; when you looked at them: garrison restore accept --revocations", restoredText(r))
	}
	return err
}

// restoredText tells what a restore may have lost of who may connect.
func restoredText(r *accessv1.Restored) string {
	at := r.GetBackupAt().AsTime().UTC().Format(time.RFC3339)
	if !r.GetAdopted() {
		return fmt.Sprintf("revocations after %s may be lost: users who were revoked, servers that were shut out and "+
			"tokens that were used or revoked since then are let in; revoke them again", at)
	}
	lost := r.GetLost()
	if n := r.GetLostMore(); n > 0 {
		lost = append(lost, fmt.Sprintf("%d more", n))
	}
	if len(lost) == 0 {
		return fmt.Sprintf("revocations after %s may be lost; the bus refuses what it refused before the restore: %s",
			at, listing.Plural(int(r.GetRefused()), "key"))
	}
	return fmt.Sprintf("the ledger lost the revocations after %s of %s; the bus still refuses their keys; revoke them "+
		"again, so that they are shown as revoked", at, strings.Join(lost, ", "))
}
