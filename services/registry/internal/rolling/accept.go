// Package rolling connects rollouts with the fleet: it plans one on the view, and derives the intents that reach its
// servers. What happens when is package rollout's matter. It is pure: the same arguments lead to the same facts under
// the same ids.
//
// Guarantees:
//
//  1. A plan decides each step for each server as an intent of its own would.
//  2. A rollout that carries the guard of its plan is accepted with exactly that plan, waves included, or refused.
//  3. What is derived for servers is recorded whole, guarded by the rollout's key and by each instance's, so that a
//     pause or a halt that was recorded first wins, and no server is reached twice.
package rolling

import (
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// The limits of a part of a plan: a fact has at most one MiB.
const (
	partTargets = 2000
	partBytes   = 700 << 10
)

// namedServers is how many servers an answer names.
const namedServers = 1000

// plans matches each part of each plan. The first part of a plan is guarded by it, so that of two plans that were made
// on one view, and may overlap, only one begins.
var plans = ledger.FactSubject(ledger.Rollout, "*", "planned")

// Decision is the outcome of an intent with the verb rollout. Parts are recorded in their order, each guarded by the
// sequence of the one before; Last is recorded in one step with the last part.
type Decision struct {
	Parts   []ledger.Fact
	Guard   ledger.Guard // of the first part
	Last    []ledger.Draft
	Changed uint32
	Undoes  string // the rollout or the intent that the plan undoes
	Refusal *apiv1.Refusal
}

// Decide decides an intent with the verb rollout.
func Decide(r Reader, a intent.Ask) Decision {
	if begun, ok := r.Rollout(a.ID); ok {
		return interrupted(r, a, begun)
	}
	p := Plan(r, a)
	if p.Refusal != nil {
		return refused(a, p.Refusal)
	}
	d := Decision{
		Changed: uint32(len(p.Targets)), Undoes: p.Undoes, Guard: ledger.Guard{Subject: plans, Sequence: r.LastPart()},
	}
	answer := &intentv1.Accepted{Intent: a.Intent, Changed: d.Changed, TargetsSha256: p.sum}
	for _, step := range p.Steps {
		answer.Already, answer.PassedOver = answer.Already+step.Already, answer.PassedOver+step.PassedOver
		answer.LeftOut, answer.Reasons = answer.LeftOut+step.LeftOut, append(answer.Reasons, step.Reasons...)
	}
	for _, t := range p.Targets[:min(namedServers, len(p.Targets))] {
		answer.ServerIds = append(answer.ServerIds, t.ServerId)
	}
	if a.Intent.DryRun {
		d.Last = []ledger.Draft{intent.Answer(a, answer)}
		return d
	}
	for n, part := range p.parts() {
		d.Parts = append(d.Parts, intent.Fact(a, ledger.Rollout, a.ID, part, uint64(n)))
	}
	if past, ok := r.Rollout(p.Undoes); ok {
		taken, beside := TakeBack(r, past)
		f := intent.Fact(a, ledger.Rollout, p.Undoes, &rolloutv1.Undone{ByRolloutId: a.ID, TakenBack: taken}, 0)
		d.Last = append(d.Last, ledger.OnKey(f, r.Sequence(ledger.Rollout, p.Undoes)))
		d.Last = append(d.Last, Drafts(r, beside, func(name string, body proto.Message, turn int) ledger.Fact {
			return intent.Fact(a, ledger.Environment, name, body, uint64(turn))
		})...)
	}
	d.Last = append(d.Last, intent.Answer(a, answer))
	return d
}

func refused(a intent.Ask, why *apiv1.Refusal) Decision {
	return Decision{
		Refusal: why, Last: []ledger.Draft{intent.Answer(a, &intentv1.Refused{Intent: a.Intent, Refusal: why})},
	}
}

// interrupted ends a rollout whose plan was recorded in part.
func interrupted(r Reader, a intent.Ask, begun *rolloutv1.Rollout) Decision {
	why := &apiv1.Refusal{
		Code: code.PlanInterrupted, Component: ledger.Registry, Try: "the command again",
		Message: "the registry stopped while it recorded the plan; nothing has changed on any server",
	}
	d := refused(a, why)
	if begun.State == rolloutv1.State_STATE_PLANNED {
		f := intent.Fact(a, ledger.Rollout, a.ID, &rolloutv1.Aborted{Reason: why.Message}, 0)
		d.Last = append([]ledger.Draft{ledger.OnKey(f, r.Sequence(ledger.Rollout, a.ID))}, d.Last...)
	}
	return d
}

// parts divides the plan so that each part fits in a fact.
func (p Planned) parts() []*rolloutv1.Planned {
	first := &rolloutv1.Planned{
		Strategy: p.Strategy, Waves: p.Waves, Owed: p.Owed, Agents: p.Agents, Undoes: p.Undoes, Title: p.Title,
		Then: p.Then, StartAt: p.StartAt,
	}
	out, size := []*rolloutv1.Planned{first}, 0
	for _, t := range p.Targets {
		bytes, last := proto.Size(t)+8, out[len(out)-1]
		if len(last.Targets) == partTargets || size+bytes > partBytes {
			last, size = &rolloutv1.Planned{}, 0
			out = append(out, last)
		}
		last.Targets, size = append(last.Targets, t), size+bytes
	}
	for n, part := range out {
		part.Part, part.Parts = uint32(n)+1, uint32(len(out))
	}
	return out
}
