package restore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

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
