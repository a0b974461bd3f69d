// Package agent is the life of the noun agent: what operators declare about a program before it has images.
// The registry writes the noun.
//
//	next, fit := agent.Apply(record, fact)
//
// Guarantee: a record is created once and changed or deleted only while it exists. Its kind
// never changes.
package agent

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Life

// Apply folds a fact into an agent's record, which is nil for an unknown agent, and returns the
// record after it; nil means that the agent is deleted. It returns false, and the record unchanged,
// for a fact that does not fit.
func Apply(have *agentv1.Agent, f ledger.Fact) (*agentv1.Agent, bool) {
	exists, fit := declared.Next(have != nil, f.Name())
	switch {
	case !fit:
		return have, false
	case !exists:
		return nil, true
	}
	next := proto.CloneOf(body(f.Body))
	if next == nil || have != nil && next.Kind != have.Kind {
		return have, false
	}
	next.Name, next.CreatedAt, next.ChangedAt = f.Key, declared.CreatedAt(have.GetCreatedAt(), f.At), nil
	next.Revision, next.ChangedBy, next.Changed = f.Sequence, f.Actor, nil
	if have != nil {
		next.Changed, next.ChangedAt = declared.Changed(have, next), timestamppb.New(f.At)
	}
	return next, true
}

// kindWords are the words of the kinds, as recipes and the CLI have them.
var kindWords = map[agentv1.Kind]string{
	agentv1.Kind_KIND_DAEMON: "daemon", agentv1.Kind_KIND_ONESHOT: "oneshot", agentv1.Kind_KIND_FILES: "files",
	agentv1.Kind_KIND_SELF: "self", agentv1.Kind_KIND_EXTERNAL: "external",
}

// KindWord returns the word of a kind, such as daemon; an unspecified or unknown kind has none.
func KindWord(k agentv1.Kind) string { return kindWords[k] }

// body returns the record in a fact, or nil.
func body(m proto.Message) *agentv1.Agent {
	switch b := m.(type) {
	case *agentv1.Created:
		return b.Agent
	case *agentv1.Changed:
		return b.Agent
	}
	return nil
}
