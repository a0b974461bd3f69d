package intent

import (
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// held refuses to change an instance that drifted in an environment that holds such instances, or returns nil. What was
// changed on the server stays as it is until somebody asks for its repair, which is an upgrade to the image that is
// wanted, or for its removal.
func (q *question) held(s *serverv1.Server, have *instancev1.Instance) *apiv1.Refusal {
	e, _ := q.reader.Environment(s.GetEnvironment())
	cause := drift.Drifted(have)
	if cause == "" || environment.DriftPolicy(e) != environmentv1.DriftPolicy_DRIFT_POLICY_HOLD {
		return nil
	}
	return &apiv1.Refusal{
		Code: code.DriftHeld,
		Message: fmt.Sprintf("agent %q drifted there (%s), and environment %q holds such agents", have.Agent, cause,
			e.Name),
		Try: "garrison check --fix --on " + s.Name,
	}
}

// onHold refuses to change an agent that an operator holds on a server, or returns nil.
func (q *question) onHold(s *serverv1.Server, agent string) *apiv1.Refusal {
	if q.holds == nil {
		q.holds = hold.NewIndex(q.reader, q.ask.At)
	}
	if h := q.holds.On(s, agent); h != nil {
		return hold.Refuse(h)
	}
	return nil
}

// closed refuses to change a server whose environment is held or outside its windows, or returns nil. A rollout waits
// instead; what follows from a default or a rollout was let through before.
func (q *question) closed(s *serverv1.Server) *apiv1.Refusal {
	if q.ask.Walk || q.ask.Intent.GetSource() != nil || q.ask.Intent.GetOverride() {
		return nil
	}
	state, known := q.doors[s.GetEnvironment()]
	if !known {
		e, _ := q.reader.Environment(s.GetEnvironment())
		if q.doors == nil {
			q.doors = map[string]window.State{}
		}
		state = window.At(e, q.ask.At)
		q.doors[s.GetEnvironment()] = state
	}
	if state.Open {
		return nil
	}
	message := state.Why
	if !state.Until.IsZero() {
		message += ", until " + state.Until.UTC().Format(time.RFC3339)
	}
	return &apiv1.Refusal{
		Code: code.Closed, Message: message,
		Try: waiting(q.ask.Intent) + ", which waits; --override to change it now; garrison env show " +
			s.GetEnvironment(),
	}
}

// waiting returns the command that makes a rollout of an intent, with one server first, so that it reaches any number.
func waiting(in *intentv1.Intent) string {
	var change string
	var on *intentv1.Selector
	switch q := in.Ask.(type) {
	case *intentv1.Intent_Install:
		change, on = "--install "+Chosen(q.Install.Agent, q.Install.Image), q.Install.On
	case *intentv1.Intent_Upgrade:
		if q.Upgrade.Again {
			return "the same command with --batch 10%"
		}
		change, on = Chosen(q.Upgrade.Agent, q.Upgrade.Image), q.Upgrade.On
	case *intentv1.Intent_Remove:
		change, on = "--remove "+q.Remove.Agent, q.Remove.On
	default:
		return "a rollout"
	}
	return "garrison rollout start " + change + " " + selector.Flags(on) + " --canaries 1"
}
