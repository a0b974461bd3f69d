package lifecycle

import "github.com/garrison-fleet/garrison/pkg/code"

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
