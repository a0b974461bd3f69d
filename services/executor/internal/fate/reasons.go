package fate

// reasons says for each code what is so, for people.
var reasons = map[string]string{
	"IDENTITY_UNREADABLE": "the identity or the key under the root cannot be read; nothing is removed",
	"BAD_TOMBSTONE":       "the document says that the server is dead, with a tombstone that the registry did not sign; it is not followed",
	"OTHER_TOMBSTONE":     "the document says that the server is dead, with the tombstone of another server; it is not followed",
	"NO_TOMBSTONE":        "the document says that the server is dead, without the tombstone that the registry signs for it; it is not followed",
	"NO_INVENTORY":        "the executor's journal is gone, and agents are here of which nobody knows; nothing counts as removed",
	"INVENTORY_UNTRUSTED": "the inventory does not explain everything that is here; nothing counts as removed",
	"EXECUTOR_TOO_OLD":    "the document says something of this server's life that this version does not know; it is not followed",
	"LEDGER_BEHIND":       "the ledger lost documents that this server applied, as by a restored backup; older ones are not followed",
	"PLACE_UNPROVEN":      "whether the ledger holds the document that was applied last is not known yet; the newer one waits",
	"LOGIN_DENIED":        "the bus does not take this server's credentials, and does not say why",
	"LOGIN_EXPIRED":       "this server's credentials, or its account's, are too old",
	"LOGIN_REVOKED":       "the bus says that this server's credentials are revoked",
	"CLOCK_SKEW":          "this server's credentials begin in the future of its clock, or their time is disputed: one clock is wrong",
	"LOGIN_UNKNOWN":       "the bus refuses this server in words that this version does not know",
	"BUS_AWAY":            "nobody answers at the address of the bus",
	"BUS_STARTING":        "the bus is there and takes nobody for the moment",
	"NOT_PROVISIONED":     "the bus lets this server in, and what servers need is not there yet",
	"AGENTS_LEFT":         "the server is dead, and agents are still being removed",
	"NOT_PROVEN":          "the server is dead, but no tombstone that can be checked says so",
	"PROVISIONED":         "the server is dead; a provisioner made the machine and takes it away",
	"OWNERSHIP_UNKNOWN":   "the server is dead, but nobody ever told who made the machine",
	"RECEIPT_WAITS":       "the server is dead; its last receipt waits for the bus, and the files for the receipt",
}

// Why says in words what a verdict's code means.
func (v Verdict) Why() string { return reasons[v.Code] }
