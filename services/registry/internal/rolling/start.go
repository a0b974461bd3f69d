package rolling

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

// longestAhead is how long before its start a rollout may be accepted.
const longestAhead = 400 * 24 * time.Hour

// Begins returns when a rollout that is accepted now begins.
func (p Planned) Begins(now time.Time) time.Time {
	if at := p.StartAt.AsTime(); p.StartAt != nil && at.After(now) {
		return at
	}
	return now
}

// starts refuses a rollout that is to begin at a time which has passed, or that is too far ahead. The time is no part
// of what a guard covers: a saved plan may be accepted with another one.
func (p *planner) starts() *apiv1.Refusal {
	if p.StartAt == nil {
		return nil
	}
	at := p.StartAt.AsTime()
	switch {
	case p.StartAt.CheckValid() != nil || at.Sub(p.ask.At) > longestAhead:
		return malformed("the rollout is to begin at %s; at most 400 days ahead is valid", at.Format(time.RFC3339))
	case !at.After(p.ask.At):
		return &apiv1.Refusal{
			Code: code.StartPassed, Message: fmt.Sprintf("the rollout was to begin at %s, and it is %s",
				at.Format(time.RFC3339), p.ask.At.UTC().Format(time.RFC3339)),
			Try: "the same command without --at",
		}
	}
	return nil
}
