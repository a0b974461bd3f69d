package intent

import (
	"cmp"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// undo restores the state before another intent, on every server that no other intent has changed
// since.
func undo(o *outcome, q *intentv1.Undo) *apiv1.Refusal {
	past := o.ask.Undone
	if past == nil {
		return &apiv1.Refusal{
			Code: code.NotFound, Message: fmt.Sprintf("no intent %q is in the ledger", q.GetIntentId()),
			Try: "garrison events --noun intent --limit 20",
		}
	}
	if refusal := undoable(past); refusal != nil {
		return refusal
	}
	only, refusal := o.undoneOn(q.GetOn())
	if refusal != nil {
		return refusal
	}
	named := map[string]bool{}
	for i := range o.reader.ChangedBy(o.ask.ID) { // changed before an interruption
		s, _ := o.reader.Server(i.ServerId)
		named[i.ServerId] = true
		o.addChanged(s, i)
	}
	for i := range o.reader.ChangedBy(past.Id) {
		if named[i.ServerId] = true; only(i.ServerId) {
			restore(o, i, i)
		}
	}
	for i := range o.reader.RemovedBy(past.Id) {
		if named[i.ServerId] = true; only(i.ServerId) {
			restore(o, nil, i)
		}
	}
	leaveOutChangedSince(o, past, named, only)
	if q.GetOn() != nil {
		o.unnamed = 0
	}
	return nil
}

// undoneOn returns a function that reports whether an undo is about a server.
func (o *outcome) undoneOn(on *intentv1.Selector) (only func(id string) bool, refusal *apiv1.Refusal) {
	if on == nil {
		return func(string) bool { return true }, nil
	}
	found, refusal := o.selected(on)
	ids := map[string]bool{}
	for _, s := range found.Servers {
		ids[s.Id] = true
	}
	for _, l := range found.Left {
		ids[l.Server.Id] = true
	}
	return func(id string) bool { return ids[id] }, refusal
}

// undoable refuses an intent that changed no instance.
func undoable(past *intentv1.Record) *apiv1.Refusal {
	verb := verbOf(past.GetIntent())
	message := ""
	switch past.GetIntent().GetAsk().(type) {
	case *intentv1.Intent_Refresh, *intentv1.Intent_Decommission, *intentv1.Intent_Adopt, *intentv1.Intent_Release,
		*intentv1.Intent_Reinstall:
		message = fmt.Sprintf("intent %s is a %s, which cannot be undone", past.Id, verb)
	}
	if restarts(past.GetIntent()) {
		message = fmt.Sprintf("intent %s is a restart, which cannot be undone", past.Id)
	}
	switch {
	case past.State != intentv1.State_STATE_ACCEPTED && past.State != intentv1.State_STATE_WITHDRAWN: // some began
		message = fmt.Sprintf("intent %s was not accepted, so it changed nothing", past.Id)
	case past.GetIntent().GetDryRun() || past.Changed == 0:
		message = fmt.Sprintf("intent %s changed nothing", past.Id)
	}
	if message == "" {
		return nil
	}
	return &apiv1.Refusal{Code: code.NotUndoable, Message: message, Try: "garrison intent show " + past.Id}
}

// restore restores one instance. have is nil when the instance is gone; known is the record that
// remembers its state before.
func restore(o *outcome, have, known *instancev1.Instance) {
	s, ok := o.reader.Server(known.ServerId)
	before := known.GetBefore()
	switch {
	case !ok:
		return // nothing can be restored on a forgotten server
	case s.Life != serverv1.Life_LIFE_ALIVE:
		o.leaveOut(s, known.Agent, have, selector.NotAlive(s))
	case before == nil:
		why := &apiv1.Refusal{Code: code.NotUndoable, Message: "the state before is unknown"}
		o.leaveOut(s, known.Agent, have, why)
	case before.Image == nil && have.GetWanted() == nil:
		o.isAlready(s, known.Agent, have, nil)
	case before.Image == nil:
		o.takeOff(s, have)
	default:
		restoreImage(o, s, have, known)
	}
}

// restoreImage makes the image before wanted again, with the configuration before.
func restoreImage(o *outcome, s *serverv1.Server, have, known *instancev1.Instance) {
	w := want{
		server: s, agent: known.Agent, image: known.Before.Image, configuration: known.Before.Configuration,
	}
	if known.Before.Same {
		w.configuration = known.Configuration
	}
	if !image.Same(instance.Placed(have), w.image) {
		if why := checkRestored(o, s, have, w); why != nil {
			o.leaveOut(s, known.Agent, have, why)
			return
		}
	}
	if have == nil {
		o.bring(nil, w)
		return
	}
	if why := o.held(s, have); why != nil {
		o.leaveOut(s, known.Agent, have, why)
		return
	}
	bringOrKeep(o, have, w, true)
}

// checkRestored returns why the image before cannot be installed now, or nil.
func checkRestored(o *outcome, s *serverv1.Server, have *instancev1.Instance, w want) *apiv1.Refusal {
	agent, refusal := o.agent(w.agent)
	if refusal != nil {
		return refusal
	}
	choice := &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: w.image.GetId()}}
	like := image.Want{Agent: agent, Choice: choice, Platform: s.GetSysinfo().GetPlatform()}
	found, refusal := image.Choose(o.reader, like)
	if refusal != nil {
		return refusal
	}
	if placed := instance.Placed(have); placed != nil {
		if hops, why := image.Path(o.reader, like, placed, found.Manifest); why != nil {
			return why
		} else if len(hops) > 0 {
			return image.Walked(placed, found.Manifest, hops)
		}
	}
	return o.fits(found.Manifest, s)
}

// leaveOutChangedSince leaves out the servers that the intent changed and another intent changed since, unless that
// only started the agent again. A record names its first servers only; the rest is counted.
func leaveOutChangedSince(o *outcome, past *intentv1.Record, named map[string]bool, only func(string) bool) {
	agent := cmp.Or(agentOf(past.GetIntent()), o.agentName())
	for _, id := range past.ServerIds {
		s, ok := o.reader.Server(id)
		if named[id] || !ok {
			continue
		}
		if named[id] = true; !only(id) {
			continue
		}
		have, _ := o.reader.Instance(id, agent)
		if r := have.GetRestarted(); r.GetIntentId() == past.Id { // a restart changed nothing
			known := proto.CloneOf(have)
			known.Before = r.Before
			restore(o, have, known)
			continue
		}
		message := "the agent was removed since"
		if by := have.GetIntentId(); by != "" {
			message = "intent " + by + " changed it since, or the server undid this change"
		}
		o.leaveOut(s, agent, have, &apiv1.Refusal{
			Code: code.ChangedSince, Message: message, Try: "garrison instance show " + id + " " + agent,
		})
	}
	o.unnamed = max(0, int(past.Changed)-len(named))
}

// needsWayBack returns why the versions that a server keeps for a way back must stay, or nil: a rollout that has not
// ended may have to take it back, or an operator does not want it changed.
func (q *question) needsWayBack(s *serverv1.Server) *apiv1.Refusal {
	for _, id := range q.reader.RolloutsOn(s.Id) {
		if r, _ := q.reader.Rollout(id); r != nil && !rollouts.Ended(r.State) {
			return &apiv1.Refusal{
				Code: code.RolloutOverlaps, Try: "garrison rollout show " + id + ", and again when it has ended",
				Message: fmt.Sprintf("rollout %s (%s) has not ended, and may take the server back", id, r.Title),
			}
		}
	}
	for i := range q.reader.InstancesOf(s.Id) {
		if why := q.onHold(s, i.Agent); why != nil {
			return why
		}
	}
	return q.closed(s)
}
