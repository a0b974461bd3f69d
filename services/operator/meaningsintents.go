package operator

import "maps"

// intentMeanings has the words for the codes about plans and about versions of the contract.
var intentMeanings = map[string]meaning{
	"UNKNOWN_METHOD": {
		"The service is there, but has no such method: it is of another version than the caller.",
		"garrison versions --server",
	},
	"UNKNOWN_FIELD": {
		"What was asked holds a field or a value that the service does not know. It is of a newer version than the " +
			"service, which refuses it rather than do a part of it.",
		"garrison versions: client and services of one version",
	},
	"NOTHING_LEFT": {
		"Every selected server was left out, for several reasons; the message counts them.",
		"the same with --dry-run, which lists every server with its reason",
	},
	"LEFT_OUT": {
		"The intent is strict, and some servers would be left out. Nothing was changed.",
		"the same without --strict, or with --not SERVER",
	},
	"PLAN_STALE": {
		"What was shown is not what would be done any more: servers, images or metadata changed in between. " +
			"Nothing was changed.",
		"the same command again, which plans anew",
	},
	"NEWER_RUNS": {
		"A higher version runs than the newest of the channel. A version goes down only when it is named.",
		"garrison up AGENT@VERSION --on SELECTOR",
	},
	"FAILED_BEFORE": {
		"The version failed on this server before. It is tried again only when it is named.",
		"garrison up AGENT@VERSION --on SELECTOR",
	},
	"NOT_PLACED": {
		"The wanted version never came to the server and nothing runs there, so there is nothing to configure.",
		"garrison up AGENT@VERSION --on SELECTOR, or garrison remove AGENT --on SELECTOR",
	},
	"CHANGED_SINCE": {
		"Another intent has changed the instance since, so this one is not undone there.",
		"garrison instance show SERVER AGENT",
	},
	"NOT_UNDOABLE": {
		"The intent changed no instance, or nothing is known of what was there before.",
		"garrison intent show INTENT",
	},
	"BAD_SELECTOR": {
		"A condition of the selector cannot be evaluated: it names no field, no value, or an order that there is not.",
		"--on 'NAME=VALUE', --on 'NAME in (VALUE,VALUE)', --on 'memory>=16GiB'",
	},
}

func init() { maps.Copy(meanings, intentMeanings) }
