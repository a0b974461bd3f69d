package rollouts

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// Control records what a person decides about a rollout. It is safe to run twice: what holds already writes nothing.
func (a *API) Control(
	ctx context.Context, c bus.Caller, q *registryv1.ControlRolloutRequest,
) (*registryv1.ControlRolloutResponse, error) {
	if !request.Printable(q.Reason, request.MaxDescription) {
		return nil, request.Invalid(code.BadReason,
			"a reason must be printable and have %d bytes at most", request.MaxDescription)
	}
	var id string
	var body proto.Message
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		r, err := a.find(q.RolloutId)
		if err != nil {
			return nil, err
		}
		id = r.Id
		if body, err = controlled(r, q); body == nil || err != nil {
			return nil, err
		}
		if _, fits := rollouts.Life.Next(r.State, ledger.Fact{Noun: ledger.Rollout, Body: body}.Name()); !fits {
			return nil, notFit(r, "this cannot be done any more")
		}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Rollout, r.Id, body)}, nil
	})
	if err != nil {
		return nil, err
	}
	if body != nil {
		a.log.Info().Str("rollout", id).Str(logs.Actor, c.Actor).Str(logs.Reason, q.Reason).
			Str("change", string(body.ProtoReflect().Descriptor().Name())).Msg("rollout controlled")
	}
	resp := &registryv1.ControlRolloutResponse{}
	err = a.records.Decider.Query(ctx, func() error {
		r, err := a.find(id)
		resp.Rollout = proto.CloneOf(r)
		return err
	})
	return request.Answer(resp, err)
}

// controlled returns the fact that a request leads to; nil when it holds already.
func controlled(r *rolloutv1.Rollout, q *registryv1.ControlRolloutRequest) (proto.Message, error) {
	next := rollouts.Current(r)
	switch q.Control {
	case registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE:
		if r.State == rolloutv1.State_STATE_PAUSED {
			return nil, nil
		}
		return &rolloutv1.Paused{Reason: q.Reason}, nil
	case registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME:
		return resumed(r, q)
	case registryv1.RolloutControl_ROLLOUT_CONTROL_STEP:
		if r.State == rolloutv1.State_STATE_RUNNING && r.UntilWave == next {
			return nil, nil
		}
		return &rolloutv1.Resumed{Reason: q.Reason, UntilWave: next}, nil
	case registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT:
		if r.State == rolloutv1.State_STATE_ABORTED {
			return nil, nil
		}
		return &rolloutv1.Aborted{Reason: q.Reason}, nil
	case registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE:
		return approved(r, cmp.Or(q.Wave, toApprove(r)), q.Reason)
	}
	return nil, request.Invalid(code.Malformed, "the request does not say what to do to the rollout")
}

// resumed returns the fact that a request to resume leads to; nil when it holds already. A rollout that runs, and waits
// for a window, takes an override.
func resumed(r *rolloutv1.Rollout, q *registryv1.ControlRolloutRequest) (proto.Message, error) {
	running, overrides := r.State == rolloutv1.State_STATE_RUNNING, q.Override && !r.Strategy.GetOverride()
	if q.UntilWave > uint32(len(r.Waves)) {
		return nil, request.Invalid(code.BadStrategy, "wave %d; the rollout has %d", q.UntilWave, len(r.Waves))
	}
	if running && overrides {
		return &rolloutv1.Resumed{
			Reason: q.Reason, UntilWave: cmp.Or(q.UntilWave, r.UntilWave), Override: true,
		}, nil
	}
	if running && r.UntilWave == q.UntilWave {
		return nil, nil
	}
	return &rolloutv1.Resumed{Reason: q.Reason, UntilWave: q.UntilWave, Override: overrides}, nil
}

// toApprove returns the next wave that has not begun; 0 when all have.
func toApprove(r *rolloutv1.Rollout) uint32 {
	for n, w := range r.Waves {
		if w.OpenedAt == nil {
			return uint32(n) + 1
		}
	}
	return 0
}

func approved(r *rolloutv1.Rollout, wave uint32, reason string) (proto.Message, error) {
	w := rollouts.Wave(r, wave)
	switch {
	case w == nil:
		return nil, notFit(r, "no wave is left to approve")
	case w.ApprovedBy != "":
		return nil, nil
	case w.OpenedAt != nil:
		return nil, notFit(r, "the wave has begun")
	}
	return &rolloutv1.Approved{Wave: wave, Reason: reason}, nil
}
