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
	answered := func(r *rolloutv1.Rollout) (body proto.Message, err error) {
		g := gate{c.Actor, q.Wave, q.Reason}
		switch q.Answer {
		case registryv1.RolloutAnswer_ROLLOUT_ANSWER_APPROVE:
			body, g.wave, err = approved(r, g)
		case registryv1.RolloutAnswer_ROLLOUT_ANSWER_REJECT:
			g.wave = cmp.Or(q.Wave, toReject(r))
			body, err = rejected(r, g)
		default:
			return nil, request.Invalid(code.Malformed, "the request neither approves nor rejects")
		}
		resp.Wave, resp.Already = g.wave, body == nil
		return body, err
	}
	r, err := a.steer(ctx, c, steering{q.RolloutId, q.Reason, answered})
	resp.Rollout = r
	return request.Answer(resp, err)
}

// toReject returns the first wave that has not begun and needs an approval, whether it has one or not. Without such a
// wave it returns the first that has not begun; 0 when all have.
func toReject(r *rolloutv1.Rollout) (first uint32) {
	for n, w := range r.Waves {
		wave := uint32(n) + 1
		if w.OpenedAt == nil && (w.ApprovedBy != "" || rollouts.NeedsApproval(r, wave)) {
			return wave
		}
		if w.OpenedAt == nil && first == 0 {
			first = wave
		}
	}
	return first
}

// toApprove returns the wave that an approval means which names none: the one that waits for it now. Without one it
// returns the last approved wave until that passed, so that an approval that is sent twice approves one wave. It never
// returns a wave behind one that has not passed and has no approval: a person names that one.
func toApprove(r *rolloutv1.Rollout) (uint32, error) {
	next := rollouts.Current(r)
	w := rollouts.Wave(r, next)
	if w != nil && w.OpenedAt == nil && w.ApprovedBy == "" && rollouts.NeedsApproval(r, next) &&
		r.State != rolloutv1.State_STATE_HALTED {
		return next, nil
	}
	ahead := uint32(0)
	for n := uint32(len(r.Waves)); n > 0; n-- {
		switch w := rollouts.Wave(r, n); {
		case w.ApprovedBy != "" && w.PassedAt == nil:
			return n, nil
		case w.OpenedAt == nil && rollouts.NeedsApproval(r, n):
			ahead = n
		}
	}
	if ahead == 0 {
		return 0, notFit(r, "no wave waits for an approval")
	}
	return 0, notFitTry(r, "no wave waits for an approval now; to approve one ahead, name it",
		fmt.Sprintf("garrison rollout approve %s --wave %d", r.Id, ahead))
}

// approved returns the fact of an approval, and the wave that it means; nil when it holds already.
func approved(r *rolloutv1.Rollout, g gate) (body proto.Message, wave uint32, err error) {
	if rollouts.Ended(r.State) {
		return nil, g.wave, notFit(r, "no further wave begins")
	}
	if g.wave == 0 {
		if g.wave, err = toApprove(r); err != nil {
			return nil, 0, err
		}
	}
	body, err = approvedWave(r, g)
	return body, g.wave, err
}

// approvedWave returns the fact of an approval of the wave that it names; nil when it holds already.
func approvedWave(r *rolloutv1.Rollout, g gate) (proto.Message, error) {
	w := rollouts.Wave(r, g.wave)
	switch {
	case w == nil:
		return nil, notFit(r, fmt.Sprintf("it has no wave %d; its last one is wave %d", g.wave, len(r.Waves)))
	case w.PassedAt != nil:
		return nil, notFit(r, fmt.Sprintf("wave %d has passed", g.wave))
	case w.ApprovedBy != "":
		return nil, nil
	case w.OpenedAt != nil:
		return nil, notFit(r, fmt.Sprintf("wave %d has begun", g.wave))
	case !rollouts.MayApprove(r, g.actor):
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{
			Code: code.ApproverStarted, Component: ledger.Registry, Message: fmt.Sprintf(
				"%s started rollout %s, and its waves are approved by another", g.actor, r.Id),
			Try: "another person or program with the role approver",
		})
	case !rollouts.NeedsApproval(r, g.wave):
		return nil, notFit(r, fmt.Sprintf("wave %d waits for no approval", g.wave))
	}
	return &rolloutv1.Approved{Wave: g.wave, Reason: g.reason}, nil
}

// rejected returns the fact of a rejection; nil when it holds already. The waves before may be under way: what has
// begun on their servers ends by itself.
func rejected(r *rolloutv1.Rollout, g gate) (proto.Message, error) {
	w := rollouts.Wave(r, g.wave)
	switch {
	case g.reason == "":
		return nil, request.Invalid(code.Invalid, "a rejection needs a reason")
	case w == nil:
		return nil, notFit(r, "no wave is left to reject")
	case w.OpenedAt != nil:
		return nil, notFit(r, "the wave has begun; a person can pause or abort the rollout")
	case r.State == rolloutv1.State_STATE_HALTED && r.Reason.GetCode() == code.WaveRejected:
		return nil, nil
	case !rollouts.NeedsApproval(r, g.wave):
		return nil, notFit(r, fmt.Sprintf("wave %d waits for no approval; a person can pause or abort the rollout",
			g.wave))
	}
	return &rolloutv1.Rejected{Wave: g.wave, Reason: &apiv1.Refusal{
		Code: code.WaveRejected, Component: ledger.Registry,
		Message: fmt.Sprintf("%s rejected wave %d: %s", g.actor, g.wave, g.reason),
	}}, nil
}
