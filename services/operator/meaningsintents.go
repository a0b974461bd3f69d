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
}

func init() { maps.Copy(meanings, intentMeanings) }
