package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// renamed are the command lines that took the place of commands, by what people still type. The old ones do not run. A
// word in capitals stands for the argument of the old command; one with an ellipsis for all that are left.
var renamed = map[string]string{
	"auth":               "whoami",
	"auth can-i":         "whoami --can VERB…",
	"context show":       "context list",
	"diff":               "apply -f FILE --dry-run",
	"env default list":   "env default ENVIRONMENT",
	"env default set":    "env default ENVIRONMENT AGENT",
	"env default unset":  "env default ENVIRONMENT AGENT --none",
	"env default remove": "env default ENVIRONMENT AGENT --none",
	"server replace":     "server enroll SERVER --replace",
	"source test":        "source sync NAME --dry-run",
	"image demote":       "channel remove IMAGE",
	"env fetch":          "env update ENVIRONMENT --fetch WHEN",
	"env window":         "env update ENVIRONMENT --window WINDOW",
	"env freeze":         "hold --env ENVIRONMENT --until TIME -m WHY",
	"env thaw":           "unhold --env ENVIRONMENT",
	"restore status":     "restore",
	"lobby":              "server list --lobby",
	"lobby list":         "server list --lobby",
	"lobby accept":       "server accept FINGERPRINT",
	"lobby reject":       "server reject FINGERPRINT",
	"env keep":           "env update ENVIRONMENT --keep N/FIELD",
	"external":           "instance list --kind external",
	"external list":      "instance list --kind external",
	"external report":    "instance report AGENT",
	"external show":      "instance list AGENT -o wide",
	"external stale":     "instance list --kind external --stale",
	"external want":      "agent update AGENT --want VERSION",
	"agent want":         "agent update AGENT --want VERSION",
	"avail":              "image list --newer",
	"image from-triton":  "image build FILE --triton MANIFEST",
	"block add":          "block AGENT@VERSION",
	"block remove":       "unblock BLOCK",
	"intent cancel":      "cancel INTENT",
	"intent withdraw":    "cancel INTENT",
	"task cancel":        "cancel TASK",
	"purge-undo":         "undo --purge",
	"restore confirm":    "restore accept --revocations",
	"token show":         "token list",
	"bus status":         "bus",
	"bus streams":        "bus",
	"stream":             "bus",
	"streams":            "bus",
	"rollout apply":      "rollout start --plan FILE",
	"rollout replay":     "rollout show ROLLOUT --replay",
	"rollout servers":    "rollout show ROLLOUT --servers",
	"rollout step":       "rollout resume ROLLOUT --until-wave next",
	"rollout undo":       "undo ROLLOUT",
	"rollout watch":      "watch ROLLOUT",
	"server candidates":  "instance adopt SERVER --list",
	"server label":       "server set SERVER LABEL=VALUE",
	"server move":        "server set SERVER… --env ENVIRONMENT",
	"server rename":      "server set SERVER --name NAME",
	"server scan":        "server refresh SERVER --scan",
	"server tombstone":   "server clean SERVER --tombstone",
	"task wait":          "watch TASK…",
	"wait":               "watch INTENT|TASK|ROLLOUT…",
}

// Renamed returns the command lines that took the place of commands, by the old ones.
func Renamed() map[string]string { return maps.Clone(renamed) }

// RenamedTo returns the command line that took the place of one that is typed behind a command, with its arguments; ""
// for none. A single word that takes no argument, such as auth, stands for what it was only when it is alone.
func RenamedTo(c *cobra.Command, args []string) string {
	typed := slices.Concat(strings.Fields(c.CommandPath())[1:], args)
	for n := min(len(typed), 3); n > 0; n-- {
		line := renamed[strings.Join(typed[:n], " ")]
		if line == "" || n == 1 && len(typed) > 1 && !slices.ContainsFunc(strings.Fields(line), stands) {
			continue
		}
		return c.Root().Name() + " " + filled(line, typed[n:])
	}
	return ""
}

// stands reports whether a word of a command line stands for an argument.
func stands(word string) bool { return strings.ToUpper(word) == word && strings.ToLower(word) != word }

// filled returns a command line with arguments in the place of the words that stand for them, as far as there are any.
func filled(line string, args []string) string {
	words := strings.Fields(line)
	for n, word := range words {
		switch {
		case len(args) == 0 || !stands(word):
		case word == "VERB…": // one value of a flag
			words[n], args = listing.Quote(strings.Join(args, " ")), nil
		case strings.HasSuffix(word, "…"):
			var all []string
			for _, a := range args {
				all = append(all, listing.Quote(a))
			}
			words[n], args = strings.Join(all, " "), nil
		default:
			words[n], args = listing.Quote(args[0]), args[1:]
		}
	}
	return strings.Join(words, " ")
}
