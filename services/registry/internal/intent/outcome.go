package intent

import (
	"cmp"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
)

// namedServers is how many servers an answer names. namedRefreshed is the limit for a refresh, for
// whose named servers the task-dispatcher opens tasks, and for a decommission, whose end is watched.
const (
	namedServers   = 1000
	namedRefreshed = 10_000
)

// question is what is asked, and the view that answers it. It finds what that is about, and says why not.
type question struct {
	ask    Ask
	reader Reader
	holds  hold.Index
	doors  map[string]window.State // by environment
}

// outcome is a decision in the making.
type outcome struct {
	question
	changes []ledger.Draft
	chosen  []*intentv1.Chosen
	resumed bool // part of it is in the ledger already
	tally
}

// fact returns a fact of the intent. Its id is computed, so that a repeated decision makes the same
// fact; turn distinguishes two facts of one kind on one key.
func (o *outcome) fact(noun ledger.Noun, key string, body proto.Message, turn uint64) ledger.Fact {
	name := string(body.ProtoReflect().Descriptor().FullName())
	return ledger.Fact{
		Noun: noun, Key: key, Body: body,
		ID: ident.From("fact", o.ask.ID, string(noun), key, name, strconv.FormatUint(turn, 10)),
		At: o.ask.At, Source: ledger.Registry, Actor: o.ask.Actor,
		Request: o.ask.ID, Cause: ledger.CausedByIntent(o.ask.ID), Trace: o.ask.Trace,
	}
}

// change adds a guarded fact.
func (o *outcome) change(noun ledger.Noun, key string, body proto.Message, turn uint64) {
	o.changes = append(o.changes, ledger.OnKey(o.fact(noun, key, body, turn), o.reader.Sequence(noun, key)))
}

// bring makes the agent wanted on the server at the image, with the configuration, unless the server is being
// reinstalled.
func (o *outcome) bring(have *instancev1.Instance, w want) {
	if w.server.GetReinstall() != nil {
		o.leaveOut(w.server, w.agent, have, beingReinstalled(w.server))
		return
	}
	why := cmp.Or(o.onHold(w.server, w.agent), o.blocked(have, w), o.failedThere(have, w),
		failedElsewhere(o.reader, o.ask, have, w))
	if why == nil && w.candidate == "" { // an adoption changes nothing that runs
		why = o.closed(w.server)
	}
	if why != nil {
		o.leaveOut(w.server, w.agent, have, why)
		return
	}
	id := have.GetId()
	if have == nil {
		id = ident.From("instance", o.ask.ID, w.server.Id, w.agent)
	}
	body := &instancev1.Wanted{
		InstanceId: id, Generation: have.GetGeneration() + 1, Image: w.image, IntentId: o.ask.ID,
		Configuration: w.configuration, AdoptCandidate: w.candidate, Origin: w.origin,
		Again: w.again,
	}
	o.change(ledger.Instance, ledger.Key(w.server.Id, w.agent), body, body.Generation)
	o.add(target{
		server: w.server, agent: w.agent, from: have.GetObserved(), to: w.image, configuration: w.configuration,
		effect: change, move: moveOf(have, w), hops: w.hops,
	})
}

// takeOff makes the agent unwanted on the server, unless others there need it.
func (o *outcome) takeOff(s *serverv1.Server, have *instancev1.Instance) {
	if why := cmp.Or(o.onHold(s, have.Agent), o.closed(s), o.needed(s, have)); why != nil {
		o.leaveOut(s, have.Agent, have, why)
		return
	}
	o.unwant(have)
	o.add(target{server: s, agent: have.Agent, from: have.Observed, effect: change, move: intentv1.Move_MOVE_REMOVE})
}

func (o *outcome) unwant(i *instancev1.Instance) {
	u := &instancev1.Unwanted{InstanceId: i.Id, Generation: i.Generation + 1, IntentId: o.ask.ID}
	o.change(ledger.Instance, ledger.Key(i.ServerId, i.Agent), u, u.Generation)
}

// changedBefore reports whether this intent already changed the instance, before an interruption.
func (o *outcome) changedBefore(i *instancev1.Instance) bool {
	return i != nil && o.ask.ID != "" && i.IntentId == o.ask.ID
}

// addChanged adds a server that this intent already changed.
func (o *outcome) addChanged(s *serverv1.Server, i *instancev1.Instance) {
	o.resumed = true
	move := intentv1.Move_MOVE_REMOVE
	if i.Wanted != nil {
		move = intentv1.Move_MOVE_UPGRADE
	}
	o.add(target{
		server: s, agent: i.Agent, from: i.GetBefore().GetImage(), to: i.Wanted, configuration: i.Configuration,
		effect: change, move: move,
	})
}

// begun reports whether part of the intent is in the ledger, and makes that part the decision.
func (o *outcome) begun() bool {
	o.changes, o.tally = nil, tally{}
	for i := range o.reader.ChangedBy(o.ask.ID) {
		s, _ := o.reader.Server(i.ServerId)
		o.addChanged(s, i)
	}
	return o.changed() > 0
}

// sortTargets sorts the targets by server. Most are in order; only those that the selector left out
// come first.
func (o *outcome) sortTargets() {
	slices.SortStableFunc(o.targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.agent, b.agent), cmp.Compare(a.server.GetId(), b.server.GetId()))
	})
}

// accepted returns the changes and the answer behind them.
func (o *outcome) accepted() []ledger.Draft {
	named := namedServers
	if o.ask.Intent.GetRefresh() != nil || o.ask.Intent.GetDecommission() != nil {
		named = namedRefreshed
	}
	answer := &intentv1.Accepted{
		Intent: o.ask.Intent, ServerIds: o.changedIDs(named), TargetsSha256: o.sum(), Reasons: o.reasons(),
		Changed: uint32(o.changed()), Already: uint32(o.counts[already]),
		PassedOver: uint32(o.counts[passedOver]), LeftOut: uint32(o.left()),
	}
	if o.ask.Intent.DryRun {
		o.changes = nil
	}
	return append(o.changes, o.answer(answer))
}

func (o *outcome) refused(refusal *apiv1.Refusal) ledger.Draft {
	return o.answer(&intentv1.Refused{Intent: o.ask.Intent, Refusal: refusal})
}

func (o *outcome) answer(body proto.Message) ledger.Draft {
	draft := ledger.OnKey(o.fact(ledger.Intent, o.ask.ID, body, 0), 0)
	if o.ask.Under != (ledger.Guard{}) {
		draft.Guard = o.ask.Under
	}
	return draft
}
