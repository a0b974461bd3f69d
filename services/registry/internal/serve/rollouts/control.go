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
	r, err := a.steer(ctx, c, steering{q.RolloutId, q.Reason, func(r *rolloutv1.Rollout) (proto.Message, error) {
		return controlled(r, c.Actor, q)
	}})
	return request.Answer(&registryv1.ControlRolloutResponse{Rollout: r}, err)
}

// steering is what is decided about a rollout, and why.
type steering struct {
	rollout, reason string
	decide          func(*rolloutv1.Rollout) (proto.Message, error) // the fact that follows; nil when it holds already
}

// steer records what is decided about a rollout, and returns the rollout after it.
func (a *API) steer(ctx context.Context, c bus.Caller, s steering) (*rolloutv1.Rollout, error) {
	if !request.Printable(s.reason, request.MaxDescription) {
		return nil, request.Invalid(code.Invalid,
			"a reason must be printable and have %d bytes at most", request.MaxDescription)
	}
	var id string
	var body proto.Message
	err := a.records.Change(ctx, func() ([]ledger.Draft, error) {
		r, err := a.find(s.rollout)
		if err != nil {
			return nil, err
		}
		id = r.Id
		if body, err = s.decide(r); body == nil || err != nil {
			return nil, err
		}
		if _, fits := rollouts.Life.Next(r.State, ledger.Fact{Noun: ledger.Rollout, Body: body}.Name()); !fits {
			return nil, notFit(r, "this can no longer be done")
		}
		return []ledger.Draft{a.records.ByCaller(c, ledger.Rollout, r.Id, body)}, nil
	})
	if err != nil {
		return nil, err
	}
	if body != nil {
		a.log.Info().Str("rollout", id).Str(logs.Actor, c.Actor).Str(logs.Reason, s.reason).
			Str("change", string(body.ProtoReflect().Descriptor().Name())).Msg("rollout controlled")
	}
	var found *rolloutv1.Rollout
	err = a.records.Decider.Query(ctx, func() error {
		r, err := a.find(id)
		found = proto.CloneOf(r)
		return err
	})
	return found, err
}

// controlled returns the fact that a request leads to; nil when it holds already.
func controlled(r *rolloutv1.Rollout, actor string, q *registryv1.ControlRolloutRequest) (proto.Message, error) {
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
		body, _, err := approved(r, gate{actor, q.Wave, q.Reason})
		return body, err
	}
	return nil, request.Invalid(code.Malformed, "the request does not say what to do to the rollout")
}

// resumed returns the fact that a request to resume leads to; nil when it holds already. A rollout that runs, and waits
// for a window, takes an override.
func resumed(r *rolloutv1.Rollout, q *registryv1.ControlRolloutRequest) (proto.Message, error) {
	running, overrides := r.State == rolloutv1.State_STATE_RUNNING, q.Override && !r.Strategy.GetOverride()
	if q.UntilWave > uint32(len(r.Waves)) {
		return nil, noWave(r, q.UntilWave)
	}
	if next := rollouts.Current(r); q.UntilWave > 0 && q.UntilWave < next {
		return nil, wavePassed(r, q.UntilWave, next)
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
