package detect

import (
	"regexp"
	"strings"
	"unicode"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bounds"
)

// The limits of a process's arguments.
const (
	maxArgs    = 24
	maxArg     = 96
	maxSockets = 16
)

// masked stands for a value that may be a secret.
const masked = "***"

var (
	secretName = regexp.MustCompile(
		`(?i)(pass(word|wd|phrase|code)?|pwd|secret|token|api[-_.]?key|access[-_.]?key|private[-_.]?key|` +
			`credential|auth|cookie|session[-_.]?key|signature|dsn|bearer)`)
	assignment = regexp.MustCompile(`^(-{0,2}[A-Za-z][\w.-]*)[=:](.+)$`)
	userinfo   = regexp.MustCompile(`(://[^/\s:@]*):[^/\s@]+@`)
	header     = regexp.MustCompile(`(?i)^\s*[\w-]*(authorization|cookie|token|key)[\w-]*\s*:`)
)

// maskArgs returns the arguments of a process without what may be a secret, cut.
func maskArgs(args []string) (out []string) {
	hide := false
	for n, a := range args {
		if n == maxArgs {
			return append(out, "…")
		}
		out = append(out, clean(maskArg(a, hide), maxArg))
		name := strings.TrimLeft(a, "-")
		hide = strings.HasPrefix(a, "-") && !strings.Contains(a, "=") && secretName.MatchString(name)
	}
	return out
}

// maskArg masks one argument. hide is true for the one behind a name such as --password.
func maskArg(a string, hide bool) string {
	if hide && !strings.HasPrefix(a, "--") {
		return masked
	}
	if header.MatchString(a) {
		return a[:strings.IndexByte(a, ':')+1] + " " + masked
	}
	if m := assignment.FindStringSubmatch(a); m != nil && secretName.MatchString(m[1]) {
		return m[1] + "=" + masked
	}
	return userinfo.ReplaceAllString(a, "$1:"+masked+"@")
}

// clean makes a text fit for a report: valid, of printing characters, and cut.
func clean(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c == unicode.ReplacementChar || !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(s, "?"))
	return bounds.Cut(s, most)
}

// tidy cuts the texts and lists of a candidate to what a report may hold.
func tidy(c *serverv1.Candidate) {
	for _, s := range []*string{&c.Exe, &c.Path, &c.State, &c.Id} {
		*s = clean(*s, bounds.Text)
	}
	for _, s := range []*string{&c.Name, &c.Version, &c.User, &c.Unit, &c.Package} {
		*s = clean(*s, 128)
	}
	if over := len(c.Files) - maxFiles; over > 0 {
		c.Files, c.FilesMore = c.Files[:maxFiles], c.FilesMore+uint32(over)
	}
	c.Sockets = c.Sockets[:min(len(c.Sockets), maxSockets)]
	for _, list := range [][]string{c.Files, c.Sockets} {
		for n := range list {
			list[n] = clean(list[n], bounds.Text)
		}
	}
}
