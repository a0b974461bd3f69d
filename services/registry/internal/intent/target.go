package intent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

const (
	change     = intentv1.Effect_EFFECT_CHANGE
	already    = intentv1.Effect_EFFECT_ALREADY
	passedOver = intentv1.Effect_EFFECT_PASSED_OVER
	leftOut    = intentv1.Effect_EFFECT_LEFT_OUT
)

// namedByReason is how many servers a reason names.
const namedByReason = 10

// target is what a decision does to one server.
type target struct {
	server        *serverv1.Server
	agent         string
	from, to      *imagev1.Ref
	configuration *instancev1.Configuration
	effect        intentv1.Effect
	move          intentv1.Move
	reason        *apiv1.Refusal // shared by targets; never changed
	hops          []*imagev1.Manifest
}

// tally is the targets of a decision, counted.
type tally struct {
	targets []target // by server id, once the decision is made
	counts  map[intentv1.Effect]int
	unnamed int // left out without a target: an old intent names its first servers only
}

func (t *tally) add(x target) {
	if t.counts == nil {
		t.counts = map[intentv1.Effect]int{}
	}
	t.counts[x.effect]++
	t.targets = append(t.targets, x)
}

// leaveOut adds a server on which the intent cannot or must not be done.
func (t *tally) leaveOut(s *serverv1.Server, agent string, have *instancev1.Instance, why *apiv1.Refusal) {
	t.add(target{server: s, agent: agent, from: have.GetObserved(), effect: leftOut, reason: why})
}

// passOver adds a server to which the intent does not apply.
func (t *tally) passOver(s *serverv1.Server, agent string, have *instancev1.Instance, why *apiv1.Refusal) {
	t.add(target{server: s, agent: agent, from: have.GetObserved(), effect: passedOver, reason: why})
}

// isAlready adds a server that is already as requested; why explains a special case, or is nil.
func (t *tally) isAlready(s *serverv1.Server, agent string, have *instancev1.Instance, why *apiv1.Refusal) {
	t.add(target{server: s, agent: agent, from: have.GetObserved(), effect: already, reason: why})
}

// changed returns how many servers change.
func (t *tally) changed() int { return t.counts[change] }

// left returns how many servers are left out.
func (t *tally) left() int { return t.counts[leftOut] + t.unnamed }

// changedIDs returns the ids of the servers that change, at most most of them.
func (t *tally) changedIDs(most int) []string {
	var out []string
	for _, x := range t.targets {
		if x.effect == change && len(out) < most {
			out = append(out, x.server.Id)
		}
	}
	return out
}

// sum returns the SHA-256 over the targets that change, as intent.proto defines it.
func (t *tally) sum() []byte {
	sum := sha256.New()
	for _, x := range t.targets {
		if x.effect == change {
			fmt.Fprintf(sum, "%s %s %s\n", x.server.Id, x.to.GetId(), hex.EncodeToString(x.configuration.GetDigest()))
		}
	}
	return sum.Sum(nil)
}

// reasons counts the servers that do not change, by reason, in the order of their first server.
func (t *tally) reasons() []*intentv1.Reason {
	type kind struct {
		effect intentv1.Effect
		code   string
	}
	var out []*intentv1.Reason
	found := map[kind]*intentv1.Reason{}
	for _, x := range t.targets {
		if x.reason == nil || x.effect == change {
			continue
		}
		k := kind{x.effect, x.reason.Code}
		r := found[k]
		if r == nil {
			r = &intentv1.Reason{Code: k.code, Effect: k.effect, First: aboutServer(x.reason, x.server)}
			found[k], out = r, append(out, r)
		}
		if r.Count++; len(r.ServerIds) < namedByReason {
			r.ServerIds = append(r.ServerIds, x.server.Id)
		}
	}
	if t.unnamed > 0 {
		out = append(out, &intentv1.Reason{
			Code: code.ChangedSince, Effect: leftOut, Count: uint32(t.unnamed),
			First: &apiv1.Refusal{
				Code:    code.ChangedSince,
				Message: "another intent changed it since; the record does not name it",
			},
		})
	}
	return out
}

// aboutServer returns a refusal that names its server.
func aboutServer(r *apiv1.Refusal, s *serverv1.Server) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: r.Code, Component: r.Component, Nearest: r.Nearest, Try: r.Try,
		Message: fmt.Sprintf("%s (for server %q, %s)", r.Message, s.GetName(), ident.Short(s.GetId())),
	}
}

// message returns a target as the contract spells it.
func (x target) message() *intentv1.Target {
	out := &intentv1.Target{
		ServerId: x.server.GetId(), ServerName: x.server.GetName(), Agent: x.agent,
		From: x.from, To: x.to, Effect: x.effect, Move: x.move, Reason: x.reason,
	}
	if x.effect == change {
		out.Own = x.configuration.GetOwn()
		if out.Reason = x.reason; out.Reason == nil && x.agent != "" {
			out.Reason = waits(x.server)
		}
	}
	return out
}

// waits returns why a change of a server would not begin at once, or nil: a program there is in a critical section.
func waits(s *serverv1.Server) *apiv1.Refusal {
	c := s.GetCondition()
	if c.GetState() != serverv1.ExecutorState_EXECUTOR_STATE_BUSY {
		return nil
	}
	return &apiv1.Refusal{
		Code: c.GetCode(), Message: "the change waits: " + c.GetReason(),
		Try: "executor busy list, on the server",
	}
}

// moveOf returns the kind of a change: have becomes w, and differs from it.
func moveOf(have *instancev1.Instance, w want) intentv1.Move {
	placed := instance.Placed(have)
	sameConfiguration := instance.SameConfiguration(have.GetConfiguration(), w.configuration)
	switch {
	case w.candidate != "":
		return intentv1.Move_MOVE_ADOPT
	case have.GetWanted() != nil && image.Same(have.Wanted, w.image) && sameConfiguration:
		return intentv1.Move_MOVE_AGAIN
	case placed == nil || have.GetWanted() == nil:
		return intentv1.Move_MOVE_INSTALL
	case image.Same(placed, w.image) && !image.Same(have.Wanted, w.image):
		return intentv1.Move_MOVE_SETTLE
	case image.Same(placed, w.image):
		return intentv1.Move_MOVE_CONFIGURE
	case image.Older(w.image.GetVersion(), placed.GetVersion()):
		return intentv1.Move_MOVE_DOWNGRADE
	}
	return intentv1.Move_MOVE_UPGRADE
}
