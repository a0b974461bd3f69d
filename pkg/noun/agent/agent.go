// Package agent is the life of the noun agent: what operators declare about a program before it has images.
// The registry writes the noun.
//
//	next, fit := agent.Apply(record, fact)
//
// Guarantee: a record is created once and changed or deleted only while it exists. Its kind
// never changes.
package agent

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// Life lists which facts can happen in which state, and the state that follows.
var Life = declared.Life

// Apply folds a fact into an agent's record, as declared.Apply does.
func Apply(have *agentv1.Agent, f ledger.Fact) (*agentv1.Agent, bool) {
	if b := declared.Body[*agentv1.Agent](f); have != nil && b != nil && b.Kind != have.Kind {
		return have, false
	}
	return declared.Apply(have, f)
}

// kindWords are the words of the kinds, as recipes and the CLI have them.
var kindWords = map[agentv1.Kind]string{
	agentv1.Kind_KIND_DAEMON: "daemon", agentv1.Kind_KIND_ONESHOT: "oneshot", agentv1.Kind_KIND_FILES: "files",
	agentv1.Kind_KIND_SELF: "self", agentv1.Kind_KIND_EXTERNAL: "external",
}

// KindWord returns the word of a kind, such as daemon; an unspecified or unknown kind has none.
func KindWord(k agentv1.Kind) string { return kindWords[k] }
