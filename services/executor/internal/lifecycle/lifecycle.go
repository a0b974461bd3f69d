// Package lifecycle decides what the executor does with itself: it works, is suspended,
// rests, or uninstalls. The decision is a pure function of facts that package monitor
// gathers. Nothing else decides, and packages executor and removal act on it.
//
// Guarantees:
//
//  1. An uninstall needs two facts from two independent sources: the ownership manual, which
//     the registry sends once in its answer to the join, and a tombstone that the registry
//     signed for this very server. The document alone, a missing identity, a refused login and
//     any mixture of these never lead there.
//  2. An inventory that is not trusted does not prove that the agents are gone, so it never
//     leads to an uninstall.
//  3. A test checks every combination of facts.
//  4. A test writes the table and the diagram in docs/removal.md from Decide.
package lifecycle

import (
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// Action is what the executor does with itself.
type Action uint8

// The actions.
const (
	Work      Action = iota // keeps the agents as the document says; without the bus, as it last said
	Suspend                 // heals agents, removes nothing, retries: identity, login or orders are in doubt
	Rest                    // stays and reports: the server is dead and its agents are gone
	Uninstall               // removes itself
)

var actions = [...]string{"work", "suspend", "rest", "uninstall"}

// String returns the action in a word.
func (a Action) String() string { return actions[a] }

// Outcome is a decision.
type Outcome struct {
	Action Action
	Code   string // the reason; empty when the executor works normally or uninstalls
}

// Why returns the meaning of an outcome's code.
func (o Outcome) Why() string { return reasons[o.Code] }

// suspendingHistories maps each history with which the executor takes no document to its code.
var suspendingHistories = map[History]string{
	HistoryLost: code.LedgerBehind, HistoryUnproven: code.PlaceUnproven, HistoryImpossible: code.ImpossibleDocument,
}

// suspendingLogins maps each login that suspends the executor to its code. The others are
// ordinary: the bus is unreachable now and then.
var suspendingLogins = map[Login]string{
	LoginDenied: code.LoginDenied, LoginExpired: code.LoginExpired, LoginRevoked: code.LoginRevoked,
	LoginSkew: code.ClockSkew, LoginUnreadable: code.IdentityUnreadable, LoginOther: code.LoginUnknown,
}

// refusalCodes maps each refusal of this server's beats to its code.
var refusalCodes = map[Refusal]string{
	RefusalUnknown: code.UnknownServer, RefusalRemoved: code.ServerRemoved, RefusalDead: code.StillRuns,
}

// rejectedProofs maps each proof with which a server's death is not believed to its code.
var rejectedProofs = map[Proof]string{
	ProofForged:  code.BadTombstone,
	ProofOther:   code.OtherTombstone,
	ProofMissing: code.NoTombstone,
}

// disconnectedCodes maps each login without a usable bus to the code of an executor that works on.
var disconnectedCodes = map[Login]string{
	LoginAway:           code.BusAway,
	LoginStarting:       code.BusStarting,
	LoginNotProvisioned: code.NotProvisioned,
	LoginUntrusted:      code.BusNotTrusted,
}

// untrustedInventories maps each inventory from which nothing follows to its code.
var untrustedInventories = map[Inventory]string{
	InventoryNone:      code.NoInventory,
	InventoryUntrusted: code.InventoryUntrusted,
}

// Decide returns what the executor does with itself.
func Decide(f Facts) Outcome {
	dead := f.Life == serverv1.Life_LIFE_DEAD
	switch {
	case !f.Identity:
		return Outcome{Suspend, code.IdentityUnreadable}
	case !knownLife(f.Life):
		return Outcome{Suspend, code.ExecutorTooOld}
	case dead && rejectedProofs[f.Proof] != "":
		return Outcome{Suspend, rejectedProofs[f.Proof]}
	case removed(f):
		return Outcome{Suspend, code.ServerRemoved}
	case suspendingLogins[f.Login] != "":
		return Outcome{Suspend, suspendingLogins[f.Login]}
	case refusalCodes[f.Refusal] != "" && !(dead && f.Refusal == RefusalDead): // a dead server knows that it is
		return Outcome{Suspend, refusalCodes[f.Refusal]}
	case suspendingHistories[f.History] != "":
		return Outcome{Suspend, suspendingHistories[f.History]}
	case untrustedInventories[f.Inventory] != "":
		return Outcome{Suspend, untrustedInventories[f.Inventory]}
	case !dead:
		return Outcome{Work, disconnectedCodes[f.Login]}
	case f.Instances || f.Changes:
		return Outcome{Work, code.AgentsLeft}
	}
	return decideDead(f)
}

// removed reports whether the server is no longer in the registry: the registry said so, or the bus shut out a server
// whose death is proven.
func removed(f Facts) bool {
	shutOut := f.Login == LoginDenied || f.Login == LoginRevoked
	return f.Refusal == RefusalRemoved || shutOut && f.Life == serverv1.Life_LIFE_DEAD && f.Proof == ProofGood
}

// decideDead decides for a dead server without agents.
func decideDead(f Facts) Outcome {
	switch {
	case f.Proof != ProofGood:
		return Outcome{Rest, code.NotProven}
	case f.Ownership == serverv1.Ownership_OWNERSHIP_PROVISIONED:
		return Outcome{Rest, code.Provisioned}
	case f.Ownership != serverv1.Ownership_OWNERSHIP_MANUAL:
		return Outcome{Rest, code.OwnershipUnknown}
	case f.Login != LoginIn || !f.Reachable:
		return Outcome{Rest, code.ReceiptWaits} // the receipt is stored before the files go
	}
	return Outcome{Action: Uninstall}
}

// MayFollow reports whether the executor may follow a document with these facts. It may not
// follow one that says that the server is dead with a wrong tombstone, without the tombstone
// that the registry signs for such an identity, or while the inventory is not trusted, as
// nothing could then confirm that everything is gone. It may not follow a life that this
// version does not know either: that life does not count as alive.
func MayFollow(f Facts) bool {
	dead := f.Life == serverv1.Life_LIFE_DEAD
	return knownLife(f.Life) && (!dead || rejectedProofs[f.Proof] == "" && untrustedInventories[f.Inventory] == "")
}

// knownLife reports whether this version knows a life.
func knownLife(l serverv1.Life) bool {
	_, known := serverv1.Life_name[int32(l)]
	return known
}
