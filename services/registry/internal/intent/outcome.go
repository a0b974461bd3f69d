package intent

import (
	"crypto/sha256"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// namedServers is how many servers an answer names.
const namedServers = 1000

// outcome is a decision in the making.
type outcome struct {
	ask     Ask
	reader  Reader
	changes []ledger.Draft
	changed []string // ids of the servers that change
	already uint32
	passed  uint32
}

// fact makes a fact of the intent. Its id is computed, so that deciding again makes the
// same one; turn tells two of one kind on one key apart.
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

// want makes the agent wanted on the server at the image, with the configuration.
func (o *outcome) want(have *instancev1.Instance, w want) {
	id := have.GetId()
	if have == nil {
		id = ident.From("instance", o.ask.ID, w.server, w.agent)
	}
	body := &instancev1.Wanted{
		InstanceId: id, Generation: have.GetGeneration() + 1, Image: w.image, IntentId: o.ask.ID, Configuration: w.configuration,
	}
	o.change(ledger.Instance, ledger.Key(w.server, w.agent), body, body.Generation)
}

func (o *outcome) unwant(i *instancev1.Instance) {
	u := &instancev1.Unwanted{InstanceId: i.Id, Generation: i.Generation + 1, IntentId: o.ask.ID}
	o.change(ledger.Instance, ledger.Key(i.ServerId, i.Agent), u, u.Generation)
}

// mine says whether this very intent already changed the instance, before it was cut off.
func (o *outcome) mine(i *instancev1.Instance) bool { return i.GetIntentId() == o.ask.ID }

// begun says whether part of the intent is in the ledger, and makes that the decision.
func (o *outcome) begun() bool {
	o.changes, o.changed, o.already, o.passed = nil, nil, 0, 0
	for i := range o.reader.InstancesOfAgent(agentOf(o.ask.Intent)) {
		if o.mine(i) {
			o.changed = append(o.changed, i.ServerId)
		}
	}
	return len(o.changed) > 0
}

func agentOf(i *intentv1.Intent) string {
	switch ask := i.GetAsk().(type) {
	case *intentv1.Intent_Install:
		return ask.Install.GetAgent()
	case *intentv1.Intent_Upgrade:
		return ask.Upgrade.GetAgent()
	case *intentv1.Intent_Remove:
		return ask.Remove.GetAgent()
	case *intentv1.Intent_Configure:
		return ask.Configure.GetAgent()
	}
	return ""
}

// accepted gives the changes and the answer behind them.
func (o *outcome) accepted() []ledger.Draft {
	slices.Sort(o.changed)
	sum := sha256.New()
	for _, id := range o.changed {
		sum.Write([]byte(id + "\n"))
	}
	answer := &intentv1.Accepted{
		Intent: o.ask.Intent, ServerIds: o.changed[:min(namedServers, len(o.changed))],
		Changed: uint32(len(o.changed)), Already: o.already, PassedOver: o.passed, TargetsSha256: sum.Sum(nil),
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
	return ledger.OnKey(o.fact(ledger.Intent, o.ask.ID, body, 0), 0)
}
