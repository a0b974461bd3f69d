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
	"cmp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
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

// reasons maps each code to its meaning, for people.
var reasons = map[string]string{
	code.IdentityUnreadable: "cannot read the identity or the key under the root; nothing is removed",
	code.BadTombstone: "the document says that the server is dead, with a tombstone that the registry did not sign; " +
		"not followed",
	code.OtherTombstone: "the document says that the server is dead, with the tombstone of another server; " +
		"not followed",
	code.NoTombstone: "the document says that the server is dead, without the tombstone that the registry signs " +
		"for it; not followed",
	code.NoInventory:        "the journal is gone, and unknown agents are present; nothing counts as removed",
	code.InventoryUntrusted: "the inventory does not explain everything under the root; nothing counts as removed",
	code.ExecutorTooOld:     "the document has a life of the server that this version does not know; not followed",
	code.LedgerBehind: "the ledger lost documents that this server applied, for example after the restore of a " +
		"backup; older documents are not followed",
	code.ImpossibleDocument: "the document has a generation or an epoch that no ledger can have reached; it is " +
		"forged or damaged, and not followed",
	code.PlaceUnproven: "not known yet whether the ledger holds the last applied document; the newer document waits",
	code.LoginDenied: "the bus rejects this server's credentials without a reason: the server is quarantined, " +
		"revoked or dead, or joined again with another key, or this is another bus",
	code.ServerRemoved: "this server was removed from the registry, which forgot it or shut it out after its death; " +
		"it receives no documents",
	code.UnknownServer: "the registry does not manage this server",
	code.StillRuns:     "the registry says that this server is dead; the document that says so was not followed",
	code.LoginExpired:  "the credentials of this server, or of its account, have expired",
	code.LoginRevoked:  "the bus reports that this server's credentials are revoked",
	code.ClockSkew: "this server's credentials are not valid yet by its clock, or their validity is disputed: " +
		"one clock is wrong",
	code.LoginUnknown:     "the bus refuses this server for a reason that this version does not know",
	code.BusAway:          "the bus is unreachable",
	code.BusNotTrusted:    "what answers at the address of the bus did not prove to be it; nothing was sent there",
	code.BusStarting:      "NATS is up but not accepting logins yet",
	code.NotProvisioned:   "logged in, but the streams that servers need do not exist yet",
	code.AgentsLeft:       "the server is dead, and its agents are being removed",
	code.NotProven:        "the server is dead, but no verifiable tombstone says so",
	code.Provisioned:      "the server is dead; its provisioner removes the machine",
	code.OwnershipUnknown: "the server is dead, and its ownership is unknown",
	code.ReceiptWaits:     "the server is dead; the files stay until the bus has stored the last receipt",
}

// remedies maps codes to what a person on the server can do, where that differs from the advice for one elsewhere.
var remedies = map[string]string{
	code.BusAway: "garrisond health on the machine of the bus; name resolution and routes from here to its address; " +
		"the executor retries",
	code.BusStarting: "garrisond health on the machine of the bus; the executor retries",
	code.UnknownServer: "garrison server list --unknown; after the restore of a backup: garrison restore; " +
		"else garrison server enroll NAME, and here executor join --root ANOTHER-DIR --token-file FILE",
	code.NotProvisioned: "a start of garrisond on the machine of the bus; the executor retries",
}

// statusThere is advice for a person elsewhere. On the server it is where the advice is read.
const statusThere = "executor status there; "

// Remedy returns what a person on the server can do about the code of an outcome; empty when the code is unknown.
func Remedy(why, serverID string) string {
	e, _ := code.Lookup(why)
	try := cmp.Or(remedies[why], strings.TrimPrefix(e.Remedy, statusThere))
	return strings.ReplaceAll(try, "SERVER", cmp.Or(serverID, "SERVER"))
}

// Findings is what a command that is to remove the executor finds under the root.
type Findings struct {
	Facts
	ExecutorRuns    bool   // an executor holds the journal
	Missing         bool   // neither an identity nor a journal exists
	Unmanaged       bool   // processes run below the root that the journal does not know
	Begun           string // the server whose removal was begun, or ""
	ByTombstone     bool   // the command brings the tombstone and takes the receipt, in place of the bus
	TombstoneServer string // of that tombstone
}

// DecideRemoval reports whether a removal was begun and is to be completed; otherwise it may begin.
// A code refuses both.
func DecideRemoval(f Findings) (begun bool, why string) {
	if f.Begun != "" {
		if f.ByTombstone && f.TombstoneServer != f.Begun {
			return false, rejectedProofs[ProofOther]
		}
		return true, ""
	}
	outcome := Decide(f.Facts)
	switch {
	case f.ExecutorRuns:
		return false, code.ExecutorRuns
	case f.Missing:
		return false, code.NoExecutor
	case outcome.Action != Uninstall && (f.ByTombstone || OfInventory(outcome.Code)):
		return false, cmp.Or(outcome.Code, code.NotUninstalled)
	case outcome.Action != Uninstall:
		return false, code.NotUninstalled
	case f.Unmanaged:
		return false, code.ProcessesStay
	}
	return false, ""
}

// OfInventory reports whether a code says that nothing follows from the inventory.
func OfInventory(why string) bool {
	return why == code.NoInventory || why == code.InventoryUntrusted
}
