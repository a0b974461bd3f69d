package display

import (
	"regexp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// tellingLineBytes bounds the line of an agent's output that is shown beside a failure.
const tellingLineBytes = 200

// telling matches a line in which a program names why it ends.
var telling = regexp.MustCompile(`(?i:error|exception|panic|fatal|critical)(?: \([^)]*\))?["\]]?:` +
	`|\b(?:ERROR|FATAL|PANIC|CRITICAL|EMERG)\b` +
	`|(?i:level"?[=:] ?"?(?:error|fatal|panic|crit))` +
	`|(?i:panicked at|not defined: |segmentation fault|core dumped|out of memory)` +
	`|(?i:\b(?:unknown|unrecognized|unexpected|invalid|illegal|bad|missing|required)\b.{0,20}` +
	`\b(?:flag|option|argument|command|value|configuration|config)s?\b)` +
	`|(?i:permission denied|no such file or directory|address already in use|connection refused)` +
	`|(?i:(?:^|: )(?:cannot|can't|could not|failed to|unable to) )`)

// TellingLine returns the line of what an agent printed before its task failed that names the cause, or "". That is the
// last line with the words of an error, since a usage text or a stack may follow it; without one, the last line. Such
// texts are indented, so lines that are do not count.
func TellingLine(t Task) string {
	lines := strings.Split(strings.TrimSpace(visible.Text(t.GetOutcome().GetLogTail())), "\n")
	line := lines[len(lines)-1]
	for _, l := range lines {
		if indented := strings.TrimLeft(l, " \t") != l; !indented && telling.MatchString(l) {
			line = l
		}
	}
	line = output.OneLine(line)
	if len(line) <= tellingLineBytes {
		return line
	}
	return strings.ToValidUTF8(line[:tellingLineBytes-len("…")], "") + "…"
}
