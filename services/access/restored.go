package access

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// mostLost is how many lost revocations an answer names.
const mostLost = 100

// refuseRestored adds the keys that the control plane before a restore refused to those that the accounts refuse.
func (a *Access) refuseRestored(want map[string]view.Revoked) {
	if a.restored == nil {
		return
	}
	for account, keys := range a.restored.Refused {
		refused := want[account]
		refused.Keys = slices.Sorted(slices.Values(slices.Concat(refused.Keys, keys))) // the view keeps its own
		refused.Keys = slices.Compact(refused.Keys)
		want[account] = refused
	}
}

// getRestored tells what the last restore may have lost, until a person confirms it.
func (a *Access) getRestored(
	_ context.Context, _ bus.Caller, _ *accessv1.GetRestoredRequest,
) (*accessv1.GetRestoredResponse, error) {
	r, err := a.cfg.Issuer.Restored()
	if err != nil || r == nil || r.Confirmed {
		return &accessv1.GetRestoredResponse{}, err
	}
	is := &accessv1.Restored{
		BackupAt: timestamppb.New(r.BackupAt), RestoredAt: timestamppb.New(r.RestoredAt), Adopted: r.Adopted,
	}
	for _, keys := range r.Refused {
		is.Refused += uint32(len(keys))
	}
	var lost []string
	a.follower.Read(func() { lost = a.view.Lost(r.Refused, a.cfg.Now()) })
	is.Lost = lost[:min(len(lost), mostLost)]
	is.LostMore = uint32(len(lost) - len(is.Lost))
	return &accessv1.GetRestoredResponse{Restored: is}, nil
}

// confirmRestored notes that a person looked at it.
func (a *Access) confirmRestored(
	_ context.Context, c bus.Caller, q *accessv1.ConfirmRestoredRequest,
) (*accessv1.ConfirmRestoredResponse, error) {
	last, err := a.cfg.Issuer.ConfirmRestored(q.RestoredAt.AsTime())
	switch {
	case err != nil:
		return nil, err
	case !last:
		return nil, fault.Refusef(fault.Conflict, code.StaleLoss, "no restore was made then, or another one after it").
			Try("garrison restore").From(ledger.Access)
	}
	a.cfg.Log.Info().Str(logs.Actor, c.Actor).Time("restored", q.RestoredAt.AsTime()).Msg("restore confirmed")
	return &accessv1.ConfirmRestoredResponse{}, nil
}
