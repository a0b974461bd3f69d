package cli

import (
	"maps"
	"strings"

	"github.com/spf13/cobra"
)

// renamed are the command lines that took the place of commands, by what people still type. The old ones do not run.
var renamed = map[string]string{
	"auth can-i":        "whoami --can VERB",
	"context show":      "context list",
	"env window":        "env update ENVIRONMENT --window WINDOW",
	"env keep":          "env update ENVIRONMENT --keep N/FIELD",
	"external list":     "instance list --kind external",
	"external report":   "instance report AGENT",
	"external show":     "instance list AGENT -o wide",
	"external want":     "agent want AGENT VERSION",
	"avail":             "image list --newer",
	"image from-triton": "image build FILE --triton MANIFEST",
	"restore confirm":   "restore accept --revocations",
	"token show":        "token list",
	"bus status":        "bus",
	"bus streams":       "bus",
	"rollout apply":     "rollout start --plan FILE",
	"rollout servers":   "rollout show ROLLOUT --servers",
	"rollout step":      "rollout resume ROLLOUT --until-wave next",
	"rollout undo":      "undo ROLLOUT",
	"rollout watch":     "watch ROLLOUT",
	"server candidates": "instance adopt SERVER --list",
	"server scan":       "server refresh SERVER --scan",
	"server tombstone":  "server clean SERVER --tombstone",
	"task wait":         "watch TASK",
}

// Renamed returns the command lines that took the place of commands, by the old ones.
func Renamed() map[string]string { return maps.Clone(renamed) }

// renamedTo returns the command line that took the place of one that is typed behind a command; "" for none.
func renamedTo(c *cobra.Command, args []string) string {
	typed := append(strings.Fields(c.CommandPath())[1:], args...)
	for n := min(len(typed), 3); n > 0; n-- {
		if line := renamed[strings.Join(typed[:n], " ")]; line != "" {
			return c.Root().Name() + " " + line
		}
	}
	return ""
}
