// Package fate decides what becomes of the executor itself: whether it works, waits in
// quarantine, rests, or uninstalls. The decision is a pure function of facts that
// others report; nobody else decides, and one place acts on it (package executor).
//
// Guarantees:
//
//  1. Two facts are needed to uninstall, and each comes from another hand: the ownership
//     manual, which the registry told once at the join, and a tombstone that the
//     registry signed for this very server. The document alone, a missing identity, a
//     login that is refused and any mixture of these never lead there.
//  2. While the inventory is not trusted, nothing proves that the agents are gone, and
//     nothing leads there either.
//  3. A test goes through every combination of facts.
//  4. The table and the picture in ../../UNINSTALL.md are made from Decide by a test.
package fate

import (
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Fate is what becomes of the executor.
type Fate uint8

// The fates.
const (
	Work       Fate = iota // agents are kept as the document says; with the bus away, as it last said
	Quarantine             // something is wrong with who it is or what it is told: agents run and are healed, nothing is removed, it tries again
	Rest                   // the server is dead, its agents are gone; the process stays and says so
	Uninstall              // it removes itself
)

var fates = [...]string{"work", "quarantine", "rest", "uninstall"}

// String gives the fate in a word.
func (f Fate) String() string { return fates[f] }

// Proof is what is known about the tombstone in the newest document.
type Proof uint8

// The proofs.
const (
	ProofNone      Proof = iota // the document has none, and the identity has no key to check one with
	ProofUnchecked              // there is one, and the identity has no key to check it with
	ProofForged                 // the key did not sign it
	ProofOther                  // it was signed, for another server or site
	ProofMissing                // the document has none, and the identity has a key, so that the registry has signed one
	ProofGood                   // it was signed, for this server
)

var proofs = [...]string{"none", "unchecked", "forged", "of another server", "missing", "good"}

// String gives the proof in words.
func (p Proof) String() string { return proofs[p] }

// Login is how the bus takes this server.
type Login uint8

// The logins.
const (
	LoginPending        Login = iota // nobody knows yet
	LoginIn                          // it is let in
	LoginAway                        // nobody answers there
	LoginStarting                    // the bus takes nobody for the moment
	LoginNotProvisioned              // it is let in, and what servers need is not set up
	LoginDenied                      // the credentials are not taken: a wrong key, an unknown account or identity
	LoginExpired                     // their time is over
	LoginRevoked                     // they were revoked
	LoginSkew                        // they begin in this clock's future, so one clock is wrong
	LoginUnreadable                  // they cannot be read here
	LoginOther                       // the bus says what this version does not know
)

var logins = [...]string{"pending", "in", "away", "starting", "not provisioned", "denied", "expired", "revoked", "clock skew", "unreadable", "other"}

// String gives the login in words.
func (l Login) String() string { return logins[l] }

// History is what is known about the newest document and the one that was applied last.
type History uint8

// The histories.
const (
	HistoryFits     History = iota // the newest one continues it, or none was read
	HistoryLost                    // the ledger of the newest one does not hold the one that was applied last
	HistoryUnproven                // whether it does is not known yet
)

var histories = [...]string{"fits", "lost", "unproven"}

// String returns the history in a word.
func (h History) String() string { return histories[h] }

// historyCodes says for which histories the executor takes no document, and under which code.
var historyCodes = map[History]string{HistoryLost: "LEDGER_BEHIND", HistoryUnproven: "PLACE_UNPROVEN"}

// loginCodes says for which logins the executor goes into quarantine, and under which
// code. The others are ordinary: the bus is away now and then.
var loginCodes = map[Login]string{
	LoginDenied: "LOGIN_DENIED", LoginExpired: "LOGIN_EXPIRED", LoginRevoked: "LOGIN_REVOKED",
	LoginSkew: "CLOCK_SKEW", LoginUnreadable: "IDENTITY_UNREADABLE", LoginOther: "LOGIN_UNKNOWN",
}

// disbelieved says with which proofs nobody is taken at their word who says that this
// server is dead, and under which code.
var disbelieved = map[Proof]string{ProofForged: "BAD_TOMBSTONE", ProofOther: "OTHER_TOMBSTONE", ProofMissing: "NO_TOMBSTONE"}

// awayCodes says why the executor works without the bus.
var awayCodes = map[Login]string{LoginAway: "BUS_AWAY", LoginStarting: "BUS_STARTING", LoginNotProvisioned: "NOT_PROVISIONED"}

// Inventory is what the executor's own record of its agents is worth.
type Inventory uint8

// The inventories.
const (
	InventoryNone      Inventory = iota // the journal is gone, and nothing could be built again
	InventoryUntrusted                  // the journal was lost, and not everything here is explained again; or something runs beside it
	InventoryTrusted                    // it says what is here
)

var inventories = [...]string{"none", "untrusted", "trusted"}

// String returns the inventory in a word.
func (i Inventory) String() string { return inventories[i] }

// distrusted names the code of each inventory of which nothing can be concluded.
var distrusted = map[Inventory]string{InventoryNone: CodeNoInventory, InventoryUntrusted: CodeInventoryUntrusted}

// The codes of an inventory of which nothing can be concluded.
const (
	CodeNoInventory        = "NO_INVENTORY"
	CodeInventoryUntrusted = "INVENTORY_UNTRUSTED"
)

// Facts is everything that the decision is made from. The zero value knows nothing.
type Facts struct {
	Identity  bool               // the identity file can be read
	Ownership serverv1.Ownership // as told at the join; unspecified with an older identity
	Life      serverv1.Life      // as the newest document says; unspecified before there was one
	Proof     Proof              // what its tombstone is worth
	History   History            // whether the newest document continues what was applied
	Login     Login              // the last try's end
	Reachable bool               // there is a connection now
	Instances bool               // agents are left in the inventory
	Duties    bool               // changes are open
	Inventory Inventory          // what these two are worth
}

// Verdict is what is decided.
type Verdict struct {
	Fate Fate
	Code string // why; empty for a server at work
}

// Decide decides.
func Decide(f Facts) Verdict {
	dead := f.Life == serverv1.Life_LIFE_DEAD
	switch {
	case !f.Identity:
		return Verdict{Quarantine, "IDENTITY_UNREADABLE"}
	case !knownLife(f.Life):
		return Verdict{Quarantine, "EXECUTOR_TOO_OLD"}
	case dead && disbelieved[f.Proof] != "":
		return Verdict{Quarantine, disbelieved[f.Proof]}
	case loginCodes[f.Login] != "":
		return Verdict{Quarantine, loginCodes[f.Login]}
	case historyCodes[f.History] != "":
		return Verdict{Quarantine, historyCodes[f.History]}
	case distrusted[f.Inventory] != "":
		return Verdict{Quarantine, distrusted[f.Inventory]}
	case !dead:
		return Verdict{Work, awayCodes[f.Login]}
	case f.Instances || f.Duties:
		return Verdict{Work, "AGENTS_LEFT"}
	}
	return decideDead(f)
}

// decideDead decides about a dead server without agents.
func decideDead(f Facts) Verdict {
	switch {
	case f.Proof != ProofGood:
		return Verdict{Rest, "NOT_PROVEN"}
	case f.Ownership == serverv1.Ownership_OWNERSHIP_PROVISIONED:
		return Verdict{Rest, "PROVISIONED"}
	case f.Ownership != serverv1.Ownership_OWNERSHIP_MANUAL:
		return Verdict{Rest, "OWNERSHIP_UNKNOWN"}
	case f.Login != LoginIn || !f.Reachable:
		return Verdict{Rest, "RECEIPT_WAITS"} // its last word goes before its files
	}
	return Verdict{Fate: Uninstall}
}

// Believed says whether a document may be followed that gives these facts: one that says
// that the server is dead, with a wrong tombstone or without the one that the registry signs
// for such an identity, may not, and removes nothing at all. Neither may any other while the
// inventory is not trusted: nobody could tell that everything is gone. Nor may one with a life
// that this version does not know: it does not count as alive.
func Believed(f Facts) bool {
	dead := f.Life == serverv1.Life_LIFE_DEAD
	return knownLife(f.Life) && (!dead || disbelieved[f.Proof] == "" && distrusted[f.Inventory] == "")
}

// knownLife reports whether this version knows what a life means.
func knownLife(l serverv1.Life) bool {
	_, known := serverv1.Life_name[int32(l)]
	return known
}
