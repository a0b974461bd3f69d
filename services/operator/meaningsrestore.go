package operator

import "maps"

// restoreMeanings has the words for the codes about servers' histories and identities.
var restoreMeanings = map[string]meaning{
	"LEDGER_BEHIND": {
		"The server applied a document that the ledger does not have: the ledger lost part of the server's history, as " +
			"by the restore of a backup. The server keeps and heals its agents and takes no document, and nothing is " +
			"sent to it, until somebody accepts the loss.",
		"garrison restore status, then garrison restore accept --on SERVER",
	},
	"PLACE_UNPROVEN": {
		"The server was away for so long that its document does not say whether it continues what the server applied " +
			"last. The registry looks that up in the ledger; the server takes the document a few seconds later, or turns " +
			"out to be ahead.",
		"garrison server show SERVER, in a minute",
	},
	"DUPLICATE_IDENTITY": {
		"Two executors beat as this server: its machine, or its root, was copied after it had joined. Nothing new is " +
			"sent to the server meanwhile. Give the copy an identity of its own: stop its executor and its agents, " +
			"delete its root, and let it join.",
		"garrison server show SERVER, which names both; for the copy: garrison server enroll NAME, and there " +
			"executor join --token-file FILE",
	},
	"NOT_AHEAD": {
		"The server is not ahead of the ledger, so there is no loss to accept. Nothing was changed.",
		"garrison restore status",
	},
	"STALE_LOSS": {
		"The loss of the server is another one than was looked at. Nothing was changed.",
		"garrison restore status, then garrison restore accept --on SERVER",
	},
	"NOT_ENROLLED": {
		"A server beats with its own credentials, and the ledger knows it only as invited: its enrolment was lost, as by " +
			"the restore of a backup.",
		"garrison restore status",
	},
	"STILL_RUNS": {
		"A server is dead, and its executor still beats. Nothing that it says counts.",
		"executor status there; garrison server show SERVER",
	},
	"OTHER_CELL": {
		"A server beats in another cell than the one that it belongs to. Nothing that it says there counts.",
		"garrison server show SERVER; executor status there",
	},
}

func init() { maps.Copy(meanings, restoreMeanings) }
