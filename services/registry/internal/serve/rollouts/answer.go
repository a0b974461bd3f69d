package rollouts

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// gate is the answer of an actor about a wave.
type gate struct {
	actor  string
	wave   uint32
	reason string
}

// Answer records the approval or the rejection of a wave. It is safe to run twice: what holds already writes nothing.
func (a *API) Answer(
	ctx context.Context, c bus.Caller, q *registryv1.AnswerRolloutRequest,
) (*registryv1.AnswerRolloutResponse, error) {
	resp := &registryv1.AnswerRolloutResponse{}
	r, err := a.steer(ctx, c, steering{q.RolloutId, q.Reason, func(r *rolloutv1.Rollout) (proto.Message, error) {
		g := gate{c.Actor, cmp.Or(q.Wave, toApprove(r)), q.Reason}
		resp.Wave = g.wave
		switch q.Answer {
		case registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE:
			return approved(r, g)
		case registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT:
			return rejected(r, g)
		}
		return nil, request.Invalid(code.Malformed, "the request neither approves nor rejects")
	}})
	resp.Rollout = r
	return request.Answer(resp, err)
}

// toApprove returns the first wave that has not begun and needs an approval, whether it has one or not, so that an
// approval that is sent twice approves one wave. Without such a wave it returns the first that has not begun; 0 when
// all have.
func toApprove(r *rolloutv1.Rollout) (first uint32) {
	for n, w := range r.Waves {
		wave := uint32(n) + 1
		if w.OpenedAt == nil && (w.ApprovedBy != "" || rollout.NeedsApproval(r, wave)) {
			return wave
		}
		if w.OpenedAt == nil && first == 0 {
			first = wave
		}
	}
	return first
}

// approved returns the fact of an approval; nil when it holds already.
func approved(r *rolloutv1.Rollout, g gate) (proto.Message, error) {
	w := rollouts.Wave(r, g.wave)
	switch {
	case w == nil:
		return nil, notFit(r, "no wave is left to approve")
	case w.ApprovedBy != "":
		return nil, nil
	case w.OpenedAt != nil:
		return nil, notFit(r, "the wave has begun")
	case !rollouts.MayApprove(r, g.actor):
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{
			Code: code.ApproverStarted, Component: ledger.Registry, Message: fmt.Sprintf(
				"%s started rollout %s, and its waves are approved by another", g.actor, r.Id),
			Try: "garrison rollout approve " + r.Id + ", by another person or program",
		})
	}
	return &rolloutv1.Approved{Wave: g.wave, Reason: g.reason}, nil
}

// rejected returns the fact of a rejection; nil when it holds already. The waves before may be under way: what has
// begun on their servers ends by itself.
func rejected(r *rolloutv1.Rollout, g gate) (proto.Message, error) {
	w := rollouts.Wave(r, g.wave)
	switch {
	case g.reason == "":
		return nil, request.Invalid(code.BadReason, "a rejection needs a reason")
	case w == nil:
		return nil, notFit(r, "no wave is left to reject")
	case w.OpenedAt != nil:
		return nil, notFit(r, "the wave has begun; a person can pause or abort the rollout")
	case r.State == rolloutv1.State_STATE_HALTED && r.Reason.GetCode() == code.WaveRejected:
		return nil, nil
	case !rollout.NeedsApproval(r, g.wave):
		return nil, notFit(r, fmt.Sprintf("wave %d waits for no approval; a person can pause or abort the rollout",
			g.wave))
	}
	return &rolloutv1.Rejected{Wave: g.wave, Reason: &apiv1.Refusal{
		Code: code.WaveRejected, Component: ledger.Registry,
		Message: fmt.Sprintf("%s rejected wave %d: %s", g.actor, g.wave, g.reason),
	}}, nil
}
