package pages

import (
	"fmt"
	"regexp"
	"strings"
)

// Session is how the blocks of a page that are fenced as sh are run.
type Session struct {
	Before  string            // what the shell runs first, such as functions for what a test may not do
	Enter   map[string]string // what it runs before the first block of a section
	After   string            // what it runs at the end
	Replace []string          // pairs: a text of the blocks, such as a path, and what stands for it in the test
}

// exits marks a command that must exit with another code than 0.
var exits = regexp.MustCompile(`(?m)^(.*\S) +# (?:.* )?exits with ([1-9][0-9]*)\b.*$`)

// Script returns the program of the shell for a page. A command that fails ends it, with the line of its block.
func (s Session) Script(p Page) string {
	replace := strings.NewReplacer(s.Replace...)
	var out strings.Builder
	out.WriteString("set -Eeuo pipefail\nline=0\n" +
		"trap 'echo \"block at line $line: $BASH_COMMAND: exit code $?\" >&2' ERR\n" +
		"exits() { local code=0 want=$1; shift; \"$@\" || code=$?; [ $code = $want ] ||" +
		" { echo \"exit code $code, not $want\" >&2; return 1; }; }\n")
	out.WriteString(s.Before + "\n")
	section := ""
	for _, b := range p.Blocks {
		if b.Run {
			if b.Section != section {
				section = b.Section
				out.WriteString(s.Enter[section] + "\n")
			}
			text := exits.ReplaceAllString(b.Text, "exits $2 $1")
			fmt.Fprintf(&out, "line=%d\necho \"== line $line\"\n%s\n", b.Line, replace.Replace(text))
		}
	}
	out.WriteString(s.After + "\n")
	return out.String()
}
