package intent

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Reader is what a decision looks at.
type Reader interface {
	selector.Reader
	image.Reader
	Agent(name string) (*agentv1.Agent, bool)
	AgentNames() iter.Seq[string]
	Application(name string) (*applicationv1.Application, bool)
	Environment(name string) (*environmentv1.Environment, bool)
	Instance(server, agent string) (*instancev1.Instance, bool)
	InstancesOf(server string) iter.Seq[*instancev1.Instance]
	InstancesOfAgent(agent string) iter.Seq[*instancev1.Instance]
	ChangedBy(intent string) iter.Seq[*instancev1.Instance]
	RemovedBy(intent string) iter.Seq[*instancev1.Instance]
	Sequence(noun ledger.Noun, key string) uint64
}

// Ask is an intent as it arrived.
type Ask struct {
	ID, Actor, Verb string           // as the subject says, which the bus checked
	Intent          *intentv1.Intent // nil when the body could not be read
	Unreadable      string           // why not
	Unknown         string           // fields and enum values of it that are not known here
	Undone          *intentv1.Record // of an undo: what it undoes; nil when that is not known
	At              time.Time
	Trace           string
	Again           bool // it may have been begun before; see guarantee 3
}

// Decision is what becomes of an intent.
type Decision struct {
	Drafts  []ledger.Draft // in order; the last is the answer
	Changed uint32         // how many servers change
	Refusal *apiv1.Refusal // nil when it is accepted
}

// Decide decides an intent.
func Decide(r Reader, a Ask) Decision {
	o, refusal := look(r, a)
	if refusal != nil && a.Again && o.begun() {
		refusal = nil // part of it is in the ledger, so it holds
	}
	if refusal != nil {
		return Decision{Drafts: []ledger.Draft{o.refused(refusal)}, Refusal: refusal}
	}
	return Decision{Drafts: o.accepted(), Changed: uint32(o.changed())}
}

// look works out what an intent does to each server, and why it would be refused.
func look(r Reader, a Ask) (*outcome, *apiv1.Refusal) {
	o := &outcome{ask: a, reader: r}
	refusal := malformed(a)
	if refusal == nil {
		refusal = o.decide()
	}
	if refusal == nil {
		o.sortTargets()
		refusal = o.judge()
	}
	if refusal != nil {
		refusal.Component = ledger.Registry
	}
	return o, refusal
}

// judge refuses an intent for all that was found: it has nothing left to do, a server must
// be left out of one that is strict, or it does something else than its plan showed.
func (o *outcome) judge() *apiv1.Refusal {
	refusal := o.nothingLeft()
	if refusal == nil && o.ask.Intent.Strict && o.left() > 0 && !o.cutOff {
		refusal = o.leftOutRefusal(codeLeftOut, "strict, and not all can be done")
	}
	if g := o.ask.Intent.Guard; g != nil && !o.cutOff && (refusal != nil || !bytes.Equal(g.TargetsSha256, o.sum())) {
		return o.stale(g, refusal)
	}
	return refusal
}

// stale refuses an intent whose plan does not hold any more.
func (o *outcome) stale(g *intentv1.Guard, now *apiv1.Refusal) *apiv1.Refusal {
	message := fmt.Sprintf("the plan does not hold any more: it changed %d servers, and now it would change %d",
		g.Changed, o.changed())
	if ids := o.changedIDs(3); len(ids) > 0 {
		message += ", the first " + strings.Join(ids, ", ")
	}
	if n := o.left(); n > 0 {
		message += fmt.Sprintf("; %d are left out", n)
	}
	if now != nil {
		message += "; now " + now.Code + ": " + now.Message
	}
	return &apiv1.Refusal{Code: codePlanStale, Message: message, Try: "the same command again, which plans anew"}
}

func (o *outcome) decide() *apiv1.Refusal {
	switch ask := o.ask.Intent.Ask.(type) {
	case *intentv1.Intent_Install:
		return o.install(ask.Install)
	case *intentv1.Intent_Upgrade:
		return o.upgrade(ask.Upgrade)
	case *intentv1.Intent_Remove:
		return o.remove(ask.Remove)
	case *intentv1.Intent_Refresh:
		return o.refresh(ask.Refresh)
	case *intentv1.Intent_Decommission:
		return o.decommission(ask.Decommission)
	case *intentv1.Intent_Configure:
		return o.configure(ask.Configure)
	case *intentv1.Intent_Undo:
		return o.undo(ask.Undo)
	}
	return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent asks for nothing"}
}

// malformed refuses what cannot be read, or says something else than its subject.
func malformed(a Ask) *apiv1.Refusal {
	if a.Unknown != "" {
		return &apiv1.Refusal{Code: "UNKNOWN_FIELD", Message: "the intent holds " + a.Unknown, Try: "garrison versions"}
	}
	if a.Intent == nil {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent cannot be read: " + a.Unreadable}
	}
	verb := verbOf(a.Intent)
	if verb == "" {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the intent asks for nothing"}
	}
	if verb != a.Verb {
		return &apiv1.Refusal{Code: "MALFORMED", Message: "the subject says " + a.Verb + " but the body says " + verb}
	}
	return nil
}
