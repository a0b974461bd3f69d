package intent

import (
	"cmp"
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// undo brings back what was there before another intent, on every server that no other
// intent has changed since.
func (o *outcome) undo(q *intentv1.Undo) *apiv1.Refusal {
	past := o.ask.Undone
	if past == nil {
		return &apiv1.Refusal{
			Code: "UNKNOWN_INTENT", Message: fmt.Sprintf("no intent %q is in the ledger", q.GetIntentId()),
			Try: "garrison events --noun intent --limit 20",
		}
	}
	if refusal := undoable(past); refusal != nil {
		return refusal
	}
	named := map[string]bool{}
	for i := range o.reader.ChangedBy(o.ask.ID) { // made before the intent was cut off
		s, _ := o.reader.Server(i.ServerId)
		named[i.ServerId] = true
		o.made(s, i)
	}
	for i := range o.reader.ChangedBy(past.Id) {
		named[i.ServerId] = true
		o.goBack(i, i)
	}
	for i := range o.reader.RemovedBy(past.Id) {
		named[i.ServerId] = true
		o.goBack(nil, i)
	}
	o.leaveOutChangedSince(past, named)
	return nil
}

// undoable refuses an intent that changed no instance.
func undoable(past *intentv1.Record) *apiv1.Refusal {
	verb := verbOf(past.GetIntent())
	message := ""
	switch past.GetIntent().GetAsk().(type) {
	case *intentv1.Intent_Refresh, *intentv1.Intent_Decommission:
		message = fmt.Sprintf("intent %s is a %s, which nothing can undo", past.Id, verb)
	}
	switch {
	case past.State != intentv1.State_STATE_ACCEPTED:
		message = fmt.Sprintf("intent %s was not accepted, so it changed nothing", past.Id)
	case past.GetIntent().GetDryRun() || past.Changed == 0:
		message = fmt.Sprintf("intent %s changed nothing", past.Id)
	}
	if message == "" {
		return nil
	}
	return &apiv1.Refusal{Code: codeNotUndoable, Message: message, Try: "garrison intent show " + past.Id}
}

// goBack brings one instance back to what was there before; have is nil when it is gone
// since, and known is what remembers it.
func (o *outcome) goBack(have, known *instancev1.Instance) {
	s, ok := o.reader.Server(known.ServerId)
	before := known.GetBefore()
	switch {
	case !ok:
		return // nothing of a server that was forgotten can go back
	case s.Life != serverv1.Life_LIFE_ALIVE:
		o.leaveOut(s, known.Agent, have, selector.NotAlive(s))
	case before == nil:
		why := &apiv1.Refusal{Code: codeNotUndoable, Message: "what was there before is not known"}
		o.leaveOut(s, known.Agent, have, why)
	case before.Image == nil && have.GetWanted() == nil:
		o.isAlready(s, known.Agent, have, nil)
	case before.Image == nil:
		o.takeAway(s, have)
	default:
		o.bringBack(s, have, known)
	}
}

// bringBack wants an image of before again, with the configuration of before.
func (o *outcome) bringBack(s *serverv1.Server, have, known *instancev1.Instance) {
	w := want{s, known.Agent, known.Before.Image, known.Before.Configuration}
	if known.Before.Same {
		w.configuration = known.Configuration
	}
	if !image.Same(instance.Placed(have), w.image) {
		if why := o.mayComeBack(s, w); why != nil {
			o.leaveOut(s, known.Agent, have, why)
			return
		}
	}
	if have == nil {
		o.bring(nil, w)
		return
	}
	o.bringOrKeep(have, w, true)
}

// mayComeBack returns why an image of before cannot be installed now, or nil.
func (o *outcome) mayComeBack(s *serverv1.Server, w want) *apiv1.Refusal {
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
	return o.fits(found.Manifest, s)
}

// leaveOutChangedSince names the servers that the intent changed and another one changed
// since. A record names its first servers only; the rest is counted.
func (o *outcome) leaveOutChangedSince(past *intentv1.Record, named map[string]bool) {
	agent := cmp.Or(agentOf(past.GetIntent()), o.agentName())
	for _, id := range past.ServerIds {
		s, ok := o.reader.Server(id)
		if named[id] || !ok {
			continue
		}
		named[id] = true
		have, _ := o.reader.Instance(id, agent)
		message := "it is gone since"
		if by := have.GetIntentId(); by != "" {
			message = "intent " + by + " changed it since"
		}
		o.leaveOut(s, agent, have, &apiv1.Refusal{
			Code: codeChangedSince, Message: message, Try: "garrison instance show " + id + " " + agent,
		})
	}
	o.unnamed = max(0, int(past.Changed)-len(named))
}
