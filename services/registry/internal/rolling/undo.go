package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	rolloutnoun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// UnknownRollout refuses a rollout that the view does not keep.
func UnknownRollout(id string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.NotFound, Component: ledger.Registry, Try: "garrison rollout list",
		Message: fmt.Sprintf("no rollout %q, or it ended too long ago to be kept", id),
	}
}

// AmbiguousRollout refuses a prefix of the ids of several rollouts, which it names.
func AmbiguousRollout(prefix string, ids []string) *apiv1.Refusal {
	more := ""
	if n := len(ids) - mostMatches; n > 0 {
		more, ids = fmt.Sprintf(" and %d more", n), ids[:mostMatches]
	}
	return &apiv1.Refusal{
		Code: code.Ambiguous, Component: ledger.Registry, Try: "a longer prefix",
		Message: fmt.Sprintf("%q matches several rollouts: %s%s", prefix, strings.Join(ids, ", "), more),
	}
}

// mostMatches bounds the rollouts that a refusal names.
const mostMatches = 5

// wayBack plans the undo of a rollout or an intent.
type wayBack struct{ *planner }

// undo plans to take every server that a rollout touched back to what it had, unless another intent changed it since.
func (p wayBack) undo(q *intentv1.Rollout) *apiv1.Refusal {
	past, ok := p.reader.Rollout(q.UndoOf)
	switch {
	case len(q.Steps) > 0 || q.On != nil || len(q.Then) > 0 || q.StartAt != nil:
		return malformed("an undo has neither steps, a selector nor a time of its start, and ends with nothing else")
	case !ok && p.ask.Undone != nil && p.ask.Undone.Intent.GetRollout() == nil:
		return p.undoIntent(p.ask.Undone)
	case !ok:
		return UnknownRollout(q.UndoOf)
	}
	before, why := p.undoBefore(past)
	if why != nil {
		return why
	}
	p.inherit(past)
	p.Agents, p.Title = past.Agents, "undo of "+past.Title
	plan := &intentv1.Plan{}
	p.Steps = append(p.Steps, plan)
	for t := range p.reader.Targets(past.Id, "") {
		if !p.owedBy(before, t.ServerId) {
			p.undoTarget(t, before, plan)
		}
	}
	if len(p.byServer) == 0 {
		return nothingToUndo(past)
	}
	return nil
}

// undoBefore returns the rollout that undoes another one already; nil when the view keeps no such rollout. It refuses a
// second undo while the first one has not ended.
func (p wayBack) undoBefore(past *rolloutv1.Rollout) (*rolloutv1.Rollout, *apiv1.Refusal) {
	before, ok := p.reader.Rollout(past.UndoneBy)
	if past.State != rolloutv1.State_STATE_UNDONE || !ok {
		return nil, nil
	}
	if rolloutnoun.Ended(before.State) {
		return before, nil
	}
	return nil, &apiv1.Refusal{
		Code: code.NotUndoable, Message: fmt.Sprintf(
			"rollout %s is being undone by rollout %s, which is %s", past.Id, before.Id, stateWord(before.State)),
		Try: fmt.Sprintf("garrison rollout show %s, or rollout abort %s and the undo again", before.Id, before.Id),
	}
}

func stateWord(s rolloutv1.State) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "STATE_"))
}

// owedBy reports whether an undo that succeeded still reaches a server once that is back.
func (p wayBack) owedBy(before *rolloutv1.Rollout, server string) bool {
	t, _ := p.reader.Target(before.GetId(), server)
	return before.GetState() == rolloutv1.State_STATE_SUCCEEDED &&
		t.GetState() == rolloutv1.TargetState_TARGET_STATE_OWED
}

// nothingToUndo refuses the undo of a rollout that no server is as it left it.
func nothingToUndo(past *rolloutv1.Rollout) *apiv1.Refusal {
	r := &apiv1.Refusal{
		Code: code.NothingLeft, Message: "no server is as rollout " + past.Id + " left it",
		Try: "garrison rollout show " + past.Id,
	}
	switch {
	case past.State == rolloutv1.State_STATE_UNDONE:
		r.Code, r.Message = code.NotUndoable, fmt.Sprintf("rollout %s was undone by rollout %s", past.Id, past.UndoneBy)
		r.Try = "garrison rollout show " + past.UndoneBy
	case !rolloutnoun.Ended(past.State): // a halt took its broken servers back
		r.Try = "garrison rollout abort " + past.Id
	}
	return r
}

// inherit sets the strategy of an undo that has none of its own: that of the rollout that it undoes, with what is said
// of windows and urgency. A way back waits for nothing that it is not asked to wait for.
func (p wayBack) inherit(past *rolloutv1.Rollout) {
	how := p.Strategy
	if how != nil && !proto.Equal(how, &rolloutv1.Strategy{Override: how.Override, Emergency: how.Emergency}) {
		return
	}
	p.Strategy, p.inherited = proto.CloneOf(past.Strategy), true
	if p.Strategy != nil { // what was let pass for one change is not let pass for another
		p.Strategy.Emergency, p.Strategy.Override = how.GetEmergency(), how.GetOverride()
	}
	p.Strategy = withoutWaits(p.Strategy)
	for _, stage := range p.Strategy.GetStages() { // fewer may be left than there were canaries
		if n := stage.GetCanaries(); n > 0 {
			stage.Size = &rolloutv1.Stage_Servers{Servers: n}
		}
	}
}

// withoutWaits returns a strategy without its approvals, its soaks and its wait for servers that join.
func withoutWaits(s *rolloutv1.Strategy) *rolloutv1.Strategy {
	if s == nil {
		return nil
	}
	s.Approve, s.ApproveByOther, s.Soak, s.JoinFor = false, false, nil, nil
	for _, stage := range s.Stages {
		stage.Approve, stage.Soak = false, nil
	}
	return s
}

// undoIntent plans to take every server that an intent changed back to what it had, as an undo of its own would.
func (p wayBack) undoIntent(past *intentv1.Record) *apiv1.Refusal {
	plan := intent.Plan(p.reader, intent.Ask{
		Actor: p.ask.Actor, Intent: undoOf(past.Id, nil), Undone: past, At: p.ask.At, Walk: true, Back: true,
	})
	if plan.Refusal != nil {
		return plan.Refusal
	}
	plan.Intent = nil
	p.Agents, p.Steps = []string{plan.Agent}, append(p.Steps, plan.Plan)
	p.Title = "undo of " + intent.Verb(past.Intent) + " " + plan.Agent
	plan.Changes(func(c intent.Change) {
		p.add(c, false)
		t := p.byServer[c.Server.Id]
		t.UndoIntentIds = append(t.UndoIntentIds, past.Id)
	})
	if len(p.byServer) > 0 {
		return nil
	}
	if why := p.leftOut(); why != nil {
		return why
	}
	return &apiv1.Refusal{
		Code: code.NothingLeft, Message: "no server is as intent " + past.Id + " left it",
		Try: "garrison intent show " + past.Id,
	}
}

// undoTarget plans the way back of one server. before is the undo that ended before it was done, or nil.
func (p wayBack) undoTarget(t *rolloutv1.Target, before *rolloutv1.Rollout, plan *intentv1.Plan) {
	s, ok := p.reader.Server(t.ServerId)
	if !ok || s.Life != serverv1.Life_LIFE_ALIVE {
		return
	}
	later := map[string]bool{} // by agent: whether its later changes are undone
	for _, n := range backwards(t) {
		id, c := t.IntentIds[n], t.Changes[n]
		have, _ := p.reader.Instance(t.ServerId, c.Agent)
		if t.RestoredBy != "" && asPlanned(have, c) {
			continue // it was taken back already; what came before it is left
		}
		if back, known := later[c.Agent]; known { // it came by way of this image, and goes back so
			if back {
				p.goBack(t, n, "")
			}
			continue
		}
		if h := p.holds.On(s, c.Agent); h != nil {
			later[c.Agent] = false
			plan.LeftOut++
			p.reason(plan, s.Id, hold.Refuse(h))
			continue
		}
		if have != nil && p.askedBy(before, have) != id {
			id = "" // it is asked for anew, where what the rollout brought is wanted again
		}
		if c.Repair || movedOn(have, c, id) {
			later[c.Agent] = false
			plan.LeftOut++
			continue
		}
		later[c.Agent] = true
		p.goBack(t, n, id)
	}
	if undone := p.byServer[t.ServerId]; undone != nil {
		plan.Changed++
		fromFirstStep(undone)
	}
}

// fromFirstStep numbers the steps of a target from 1 where the first ones are not to be made.
func fromFirstStep(t *rolloutv1.Target) {
	first := t.Changes[0].Step
	for _, c := range t.Changes {
		first = min(first, c.Step)
	}
	for _, c := range t.Changes {
		c.Step -= first - 1
	}
}

// askedBy returns the intent that asked for what is wanted of an instance. Where that is withdrawn, or about to be
// since the undo before was aborted, it is the intent whose change is wanted again then.
func (p wayBack) askedBy(before *rolloutv1.Rollout, have *instancev1.Instance) string {
	if have.GetReverts() || queuedBy(p.reader, before, have) {
		return have.GetLastBegun().GetIntentId()
	}
	return have.GetIntentId()
}

// queuedBy reports whether what is wanted of an instance is a change that a rollout asked for before it was aborted,
// and that no server began: it is about to be withdrawn.
func queuedBy(r Reader, aborted *rolloutv1.Rollout, i *instancev1.Instance) bool {
	if aborted.GetState() != rolloutv1.State_STATE_ABORTED || i == nil || i.Begun {
		return false
	}
	switch i.TaskState {
	case taskv1.State_STATE_UNSPECIFIED, taskv1.State_STATE_QUEUED:
		t, _ := r.Target(aborted.Id, i.ServerId)
		return slices.Contains(t.GetIntentIds(), i.IntentId)
	}
	return false
}

// backwards returns the changes of a target that were asked for, by position, the last step first.
func backwards(t *rolloutv1.Target) (out []int) {
	for n, id := range t.IntentIds {
		if id != "" {
			out = append(out, n)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Compare(rollout.StepOf(t.Changes[b]), rollout.StepOf(t.Changes[a]))
	})
	return out
}

// goBack adds the way back of a change: by the undo of an intent, or without its id to the image before.
func (p wayBack) goBack(t *rolloutv1.Target, n int, id string) {
	c, last := t.Changes[n], uint32(0)
	for _, m := range backwards(t) {
		last = max(last, rollout.StepOf(t.Changes[m]))
	}
	from, configuration := c.To, c.ToConfiguration
	undone := p.target(t.ServerId)
	if !slices.ContainsFunc(undone.Changes, func(x *rolloutv1.Change) bool { return x.Agent == c.Agent }) {
		have, _ := p.reader.Instance(t.ServerId, c.Agent)
		from, configuration = placed(have), digest(have.GetConfiguration())
	}
	undone.Changes = append(undone.Changes, &rolloutv1.Change{
		Agent: c.Agent, From: from, To: c.From, FromConfiguration: configuration,
		ToConfiguration: c.FromConfiguration, Step: last + 1 - rollout.StepOf(c),
	})
	undone.UndoIntentIds = append(undone.UndoIntentIds, id)
}

// movedOn reports whether something else than a rollout's change is wanted of an instance by now; id is the intent of
// the change where that asked for it, or empty.
func movedOn(have *instancev1.Instance, c *rolloutv1.Change, id string) bool {
	return have == nil && c.To != nil || id == "" && !asLeft(have, c)
}

// asLeft reports whether a rollout's change is what is wanted of an instance, and only its image has to go back.
func asLeft(have *instancev1.Instance, c *rolloutv1.Change) bool {
	if c.To == nil || have.GetWanted() == nil || !instance.SameImage(have.Wanted, c.To) {
		return false
	}
	is := digest(have.Configuration)
	return is == c.ToConfiguration && (c.From == nil || is == c.FromConfiguration)
}

func placed(i *instancev1.Instance) *imagev1.Ref {
	if i == nil {
		return nil
	}
	return instance.Placed(i)
}
