package rolling

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Stages returns a function that returns the stages of a strategy, from 1, whose conditions a server meets. It refuses
// conditions on what servers do not have, as a selector does.
func Stages(r selector.Reader, s *rolloutv1.Strategy) (func(*serverv1.Server) []uint32, *apiv1.Refusal) {
	meets := make([]func(*serverv1.Server) bool, len(s.GetStages()))
	for n, stage := range s.GetStages() {
		if stage.Of == nil {
			continue
		}
		var refusal *apiv1.Refusal
		if meets[n], refusal = selector.Matcher(r, selectorOf(stage.Of)); refusal != nil {
			return nil, refusal
		}
	}
	return func(s *serverv1.Server) (out []uint32) {
		for n, match := range meets {
			if match != nil && match(s) {
				out = append(out, uint32(n)+1)
			}
		}
		return out
	}, nil
}

// selectorOf returns the selector of a group's servers.
func selectorOf(g *rolloutv1.Group) *intentv1.Selector {
	on := &intentv1.Selector{}
	for _, m := range g.GetWhere() {
		on.Where = append(on.Where, &intentv1.Condition{
			Field: m.GetField(), Operator: intentv1.Operator(m.GetRelation()), Values: m.GetValues(),
		})
	}
	return on
}

// grouped returns the stages whose conditions a server meets. The stages of an undo that are those of the rollout that
// it undoes may be about what has gone since: no server meets them.
func (p placing) grouped() (func(*serverv1.Server) []uint32, *apiv1.Refusal) {
	of, refusal := Stages(p.reader, p.Strategy)
	if refusal != nil && p.inherited {
		return func(*serverv1.Server) []uint32 { return nil }, nil
	}
	return of, refusal
}

// empty refuses a stage with conditions that takes no server: what is behind it would begin untried. An undo with the
// stages of the rollout that it undoes goes without it.
func (p placing) empty(l rollout.Layout) *apiv1.Refusal {
	if len(l.Empty) == 0 || p.inherited {
		return nil
	}
	e := l.Empty[0]
	group := p.Strategy.Stages[e.Stage-1].Of
	text := rollouts.GroupText(group)
	why := fmt.Sprintf("no server that the rollout changes meets %s", text)
	switch {
	case e.Meet == 0:
		if _, refusal := selector.Resolve(p.reader, selectorOf(group)); refusal != nil {
			return refusal
		}
	case e.Owed == e.Meet:
		why = fmt.Sprintf("no server of %s can be changed now: %d, all offline, unhealthy or failed before", text,
			e.Meet)
	default:
		why = fmt.Sprintf("earlier stages take every server of %s: %d", text, e.Meet-e.Owed)
	}
	return &apiv1.Refusal{
		Code: code.EmptyWave, Message: fmt.Sprintf("stage %d would have no server: %s", e.Stage, why),
		Try: "the command without that stage",
	}
}
