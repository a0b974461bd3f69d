package lifecycle

import (
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Facts is everything that the decision depends on. The zero value knows nothing.
type Facts struct {
	Identity  bool               // the identity file can be read
	Ownership serverv1.Ownership // from the join; unspecified with an older identity
	Life      serverv1.Life      // from the newest document; unspecified before the first one
	Proof     Proof              // of the newest document's tombstone
	History   History            // whether the newest document continues the applied one
	Login     Login              // result of the last attempt
	Refusal   Refusal            // of this server's beats by the registry
	Reachable bool               // the bus is connected now
	Instances bool               // the inventory still has agents
	Changes   bool               // changes are open
	Inventory Inventory          // how far Instances and Changes can be trusted
}

// Proof is the validity of the tombstone in the newest document.
type Proof uint8

// The proofs.
const (
	ProofNone      Proof = iota // no tombstone, and the identity has no key to check one with
	ProofUnchecked              // a tombstone, and the identity has no key to check it with
	ProofForged                 // the signature does not match the key
	ProofOther                  // signed, for another server or site
	ProofMissing                // no tombstone, although the identity has a key, so the registry has signed one
	ProofGood                   // signed, for this server
)

var proofs = [...]string{"none", "unchecked", "forged", "of another server", "missing", "good"}

// String returns the proof in words.
func (p Proof) String() string { return proofs[p] }

// CheckTombstone returns the proof of a document's tombstone for a server, with the key that
// the server received at its join, or "".
func CheckTombstone(d *desiredv1.Document, server, cell, key string) Proof {
	switch t := d.GetTombstone(); {
	case t == nil && (key == "" || d.GetLife() != serverv1.Life_LIFE_DEAD):
		return ProofNone
	case t == nil:
		return ProofMissing
	case key == "":
		return ProofUnchecked
	case trust.CheckTombstone(t, key) != nil:
		return ProofForged
	case t.GetServerId() != server || t.GetCell() != cell:
		return ProofOther
	}
	return ProofGood
}

// Login is the result of the last login to the bus.
type Login uint8

// The logins.
const (
	LoginPending        Login = iota // no attempt has ended yet
	LoginIn                          // logged in
	LoginAway                        // the bus is unreachable
	LoginStarting                    // the bus accepts no logins yet
	LoginNotProvisioned              // logged in, and the streams that servers need are missing
	LoginUntrusted                   // what answers did not prove to be the bus
	LoginDenied                      // credentials rejected: a wrong key, an unknown account or identity
	LoginExpired                     // credentials expired
	LoginRevoked                     // credentials revoked
	LoginSkew                        // credentials begin in this clock's future, so one clock is wrong
	LoginUnreadable                  // the credentials cannot be read from the disk
	LoginOther                       // a refusal that this version does not know
)

var logins = [...]string{
	"pending",
	"in",
	"away",
	"starting",
	"not provisioned",
	"untrusted",
	"denied",
	"expired",
	"revoked",
	"clock skew",
	"unreadable",
	"other",
}

// String returns the login in words.
func (l Login) String() string { return logins[l] }

// Refusal is why the registry refuses this server's beats and reports.
type Refusal uint8

// The refusals.
const (
	RefusalNone    Refusal = iota
	RefusalUnknown         // the registry does not manage such a server
	RefusalRemoved         // the server was forgotten
	RefusalDead            // the server is dead
)

var refusals = [...]string{"none", "unknown", "removed", "dead"}

// String returns the refusal in a word.
func (r Refusal) String() string { return refusals[r] }

// RefusalOf returns the refusal that a code of the registry stands for; RefusalNone for a code of another matter.
func RefusalOf(why string) Refusal {
	switch why {
	case code.UnknownServer, code.NotEnrolled, code.OtherCell:
		return RefusalUnknown
	case code.ServerRemoved:
		return RefusalRemoved
	case code.StillRuns:
		return RefusalDead
	}
	return RefusalNone
}

// History is the relation of the newest document to the one that was applied last.
type History uint8

// The histories.
const (
	HistoryFits       History = iota // the newest document continues the applied one, or none was read
	HistoryLost                      // the newest document's ledger does not hold the applied document
	HistoryUnproven                  // not known yet
	HistoryImpossible                // no ledger can have come so far as the newest document says
)

var histories = [...]string{"fits", "lost", "unproven", "impossible"}

// String returns the history in a word.
func (h History) String() string { return histories[h] }

// Inventory is how far the executor's own record of its agents can be trusted.
type Inventory uint8

// The inventories.
const (
	InventoryNone      Inventory = iota // the journal is gone and could not be rebuilt
	InventoryUntrusted                  // something under the root, or a process, is not explained
	InventoryTrusted                    // complete
)

var inventories = [...]string{"none", "untrusted", "trusted"}

// String returns the inventory in a word.
func (i Inventory) String() string { return inventories[i] }
