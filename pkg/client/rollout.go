package client

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
)

// PlanRollout returns what a rollout would do now, server by server, with at most limit targets; 0 means all. It writes
// nothing. Pass the intent of a plan, which carries the plan's guard, to StartRollout to do exactly what was shown. The
// plan of a rollout that would be refused holds the refusal. An error has the code CONFLICT when the fleet changed
// between two parts of the plan.
func (c *Client) PlanRollout(
	ctx context.Context, q *registryv1.PlanRolloutRequest, limit int,
) (*registryv1.PlanRolloutResponse, error) {
	var whole *registryv1.PlanRolloutResponse
	for part, err := range parts[*registryv1.PlanRolloutResponse](ctx, c, q, limit) {
		switch {
		case err != nil:
			return nil, err
		case whole == nil:
			whole = part
			continue
		case !bytes.Equal(guardOf(whole), guardOf(part)):
			return nil, planChanged()
		}
		whole.Targets = append(whole.Targets, part.GetTargets()...)
		whole.NextCursor = part.GetNextCursor()
	}
	return whole, nil
}

func guardOf(p *registryv1.PlanRolloutResponse) []byte {
	return p.GetIntent().GetGuard().GetTargetsSha256()
}

// StartRollout publishes a rollout under a new id, which is the rollout's id too, and waits until it is accepted. A
// refusal is an error. Another error may leave the intent stored and its decision unknown: Decision asks again with the
// returned id.
func (c *Client) StartRollout(ctx context.Context, in *intentv1.Intent) (id string, err error) {
	if in.GetRollout() == nil {
		return "", fault.New(fault.Invalid, "the intent asks for no rollout")
	}
	r, err := c.Submit(ctx, in)
	return r.GetId(), err
}

// UndoRollout starts a rollout that takes every server which another one changed back to what it had, and returns its
// id. Without a strategy, it has that of the rollout that it undoes.
func (c *Client) UndoRollout(ctx context.Context, id string, s *rolloutv1.Strategy) (undo string, err error) {
	ask := &intentv1.Rollout{UndoOf: id, Strategy: proto.CloneOf(s)}
	return c.StartRollout(ctx, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: ask}})
}

// Rollout returns a rollout, what it waits for, and why servers are not as they should be.
func (c *Client) Rollout(ctx context.Context, id string) (*registryv1.GetRolloutResponse, error) {
	return Call[*registryv1.GetRolloutResponse](ctx, c, &registryv1.GetRolloutRequest{RolloutId: id})
}

// WatchRollout iterates over the state of a rollout until it ends, or halts and its broken servers went back: at once,
// soon after new facts, and every second. Each look costs the same, however many servers the rollout has. An error of
// kind Unavailable is yielded, and the loop may continue; after any other error, and after the end of ctx, the loop
// ends.
func (c *Client) WatchRollout(ctx context.Context, id string) iter.Seq2[*registryv1.GetRolloutResponse, error] {
	return func(yield func(*registryv1.GetRolloutResponse, error) bool) {
		left := false
		err := c.Await(ctx, func(ctx context.Context) (bool, error) {
			r, err := c.Rollout(ctx, id)
			if err != nil && (ctx.Err() != nil || !fault.Is(err, fault.Unavailable)) {
				return false, err
			}
			left = !yield(r, err)
			return left || err == nil && Standing(r), nil
		})
		if err != nil && !left {
			yield(nil, fmt.Errorf("watch rollout %s: %w", id, err))
		}
	}
}

// Standing reports whether a rollout does nothing more by itself: it ended, or it halted and its broken servers went
// back to what they had.
func Standing(r *registryv1.GetRolloutResponse) bool {
	s := r.GetRollout().GetState()
	return rollout.Ended(s) || s == rolloutv1.State_STATE_HALTED && r.GetRestoring() == 0
}

// PauseRollout lets a rollout begin nothing new. It returns the rollout, and an error with the code ROLLOUT_NOT_FIT
// when it ended. It is safe to run twice, like the others that steer a rollout.
func (c *Client) PauseRollout(ctx context.Context, id, reason string) (*rolloutv1.Rollout, error) {
	return c.steer(ctx, id, reason, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
}

// ResumeRollout lets a rollout that is paused or halted continue. What is broken by now does not count again.
func (c *Client) ResumeRollout(ctx context.Context, id, reason string) (*rolloutv1.Rollout, error) {
	return c.steer(ctx, id, reason, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
}

// ApproveRollout approves the wave that waits for it now. While the last approved wave has not passed and none waits,
// it changes nothing; without either it returns an error with the code ROLLOUT_NOT_FIT.
func (c *Client) ApproveRollout(ctx context.Context, id, reason string) (*rolloutv1.Rollout, error) {
	return c.steer(ctx, id, reason, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
}

// AbortRollout ends a rollout. What has begun ends by itself, and what was changed stays until it is undone.
func (c *Client) AbortRollout(ctx context.Context, id, reason string) (*rolloutv1.Rollout, error) {
	return c.steer(ctx, id, reason, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
}

func (c *Client) steer(
	ctx context.Context, id, reason string, control registryv1.RolloutControl,
) (*rolloutv1.Rollout, error) {
	r, err := Call[*registryv1.ControlRolloutResponse](ctx, c, &registryv1.ControlRolloutRequest{
		RolloutId: id, Control: control, Reason: reason,
	})
	return r.GetRollout(), err
}
