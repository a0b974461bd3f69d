// Package intent decides intents. Decide returns either everything that an intent changes, or why
// it changes nothing. It is pure: the same arguments lead to the same facts under the same ids.
//
// Guarantees:
//
//  1. A decision is whole: accepted with all of its changes, or refused with none.
//  2. Each fact is guarded by the last sequence of its own key, so that a decision on an
//     outdated view is not recorded. The intent's own key is guarded by 0, so that an intent
//     is decided once.
//  3. The answer comes last. A decision that is too large for one atomic batch is recorded in
//     several. After an interruption, a new decision counts what was already changed as
//     changed, and never refuses an intent that has begun.
//  4. Plan decides as Decide does and drafts nothing. An intent with dry_run set drafts its
//     answer alone.
package intent

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/secret"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Reader is the view that a decision reads.
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
	Holds(after string) iter.Seq2[string, *holdv1.Hold]
	Block(id string) (*blockv1.Block, bool)
	Suspect(id string) (*blockv1.Suspect, bool)
	Rollout(id string) (*rolloutv1.Rollout, bool)
	RolloutsOn(server string) []string
	Sequence(noun ledger.Noun, key string) uint64
}

// Ask is an intent as it arrived.
type Ask struct {
	ID, Actor, Verb string           // from the subject, which the bus checked
	Intent          *intentv1.Intent // nil when the body could not be read
	Unreadable      string           // why not
	Unknown         string           // its fields and enum values that this registry does not know
	Wrong           *apiv1.Refusal   // why its values are refused, whatever the fleet is; nil when they are not
	Undone          *intentv1.Record // the intent that an undo names; nil when it is unknown
	At              time.Time
	Trace           string
	Secrets         *secret.Key // opens secrets for the check against a schema; nil opens none
	Again           bool        // it may have begun before; see guarantee 3
	Walk            bool        // plan paths and leave the order of agents to the caller, a rollout
	Pinned          bool        // the caller names the image for want of a choice: neither lower, nor one that failed

	// Of an intent that follows from a default of an environment or from a rollout: the ids of the servers on which it
	// is due, sorted, and the guard of the answer, which otherwise is that of the intent's own key.
	Due   []string
	Under ledger.Guard
	Back  bool // it takes servers back to what ran there before, so that no block keeps it from them
}

// MaxNote is the longest note of an intent, and reason of a hold, in bytes.
const MaxNote = 500

// Decision is the outcome of an intent.
type Decision struct {
	Drafts  []ledger.Draft // in order; the last is the answer
	Changed uint32         // how many servers change
	Refusal *apiv1.Refusal // nil when it is accepted
}

// Decide decides an intent.
func Decide(r Reader, a Ask) Decision {
	o, refusal := assess(r, a)
	if refusal != nil && a.Again && o.begun() {
		refusal = nil // part of it is in the ledger, so it holds
	}
	if refusal != nil {
		return Decision{Drafts: []ledger.Draft{o.refused(refusal)}, Refusal: refusal}
	}
	return Decision{Drafts: o.accepted(), Changed: uint32(o.changed())}
}

// assess computes what an intent does to each server, and why it would be refused.
func assess(r Reader, a Ask) (*outcome, *apiv1.Refusal) {
	o := &outcome{question: question{ask: a, reader: r}}
	refusal := malformed(a)
	if refusal == nil {
		refusal = o.decide()
	}
	if refusal == nil {
		o.sortTargets()
		refusal = o.check()
	}
	if refusal != nil {
		refusal.Component = ledger.Registry
	}
	return o, refusal
}

// check refuses an intent as a whole: it has nothing left to do, it is strict and a server must be
// left out, or it does something else than its plan showed.
func (o *outcome) check() *apiv1.Refusal {
	refusal := o.nothingLeft()
	if refusal == nil && o.ask.Intent.Strict && o.left() > 0 && !o.resumed {
		refusal = o.leftOutRefusal(code.LeftOut, "strict, and not every server can be changed")
	}
	if refusal == nil {
		refusal = o.tooWide()
	}
	if g := o.ask.Intent.Guard; g != nil && !o.resumed && (refusal != nil || !bytes.Equal(g.TargetsSha256, o.sum())) {
		return o.stale(g, refusal)
	}
	return refusal
}

// stale refuses an intent whose plan no longer holds.
func (o *outcome) stale(g *intentv1.Guard, now *apiv1.Refusal) *apiv1.Refusal {
	message := fmt.Sprintf("the plan no longer holds: it changed %d servers, and now it would change %d",
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
	return &apiv1.Refusal{Code: code.PlanStale, Message: message, Try: "run the command again; it makes a new plan"}
}

func (o *outcome) decide() *apiv1.Refusal {
	switch ask := o.ask.Intent.Ask.(type) {
	case *intentv1.Intent_Install:
		return install(o, ask.Install)
	case *intentv1.Intent_Upgrade:
		return upgrade(o, ask.Upgrade)
	case *intentv1.Intent_Remove:
		return remove(o, ask.Remove)
	case *intentv1.Intent_Refresh:
		return refresh(o, ask.Refresh)
	case *intentv1.Intent_Decommission:
		return decommission(o, ask.Decommission)
	case *intentv1.Intent_Configure:
		return configure(o, ask.Configure)
	case *intentv1.Intent_Undo:
		return undo(o, ask.Undo)
	case *intentv1.Intent_Adopt:
		return adopt(o, ask.Adopt)
	case *intentv1.Intent_Release:
		return release(o, ask.Release)
	case *intentv1.Intent_Reinstall:
		return reinstall(o, ask.Reinstall)
	}
	return &apiv1.Refusal{Code: code.Malformed, Message: "the intent has no verb"}
}

// malformed refuses an intent that cannot be read, or that contradicts its subject.
func malformed(a Ask) *apiv1.Refusal {
	if a.Unknown != "" {
		return &apiv1.Refusal{
			Code: code.UnknownField, Message: "the intent holds " + a.Unknown, Try: "garrison versions",
		}
	}
	if a.Intent == nil {
		return &apiv1.Refusal{Code: code.Malformed, Message: "the intent cannot be read: " + a.Unreadable}
	}
	verb := verbOf(a.Intent)
	if verb == "" {
		return &apiv1.Refusal{Code: code.Malformed, Message: "the intent has no verb"}
	}
	if verb != a.Verb {
		return &apiv1.Refusal{
			Code: code.Malformed, Message: "the subject says " + a.Verb + " but the body says " + verb,
		}
	}
	if a.Intent.Source != nil && a.Due == nil {
		return &apiv1.Refusal{
			Code:    code.Malformed,
			Message: "the intent names a default or a rollout as its source; only the registry derives such intents",
		}
	}
	for _, text := range []string{a.Intent.Note, a.Intent.GetRollout().GetTitle()} {
		if len(text) > MaxNote || strings.ContainsFunc(text, unprintable) {
			return &apiv1.Refusal{Code: code.Invalid, Message: fmt.Sprintf(
				"a note and a title must be printable and have %d bytes at most", MaxNote)}
		}
	}
	return a.Wrong
}

func unprintable(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
