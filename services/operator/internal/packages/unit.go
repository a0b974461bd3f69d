package packages

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// unit is a unit file of systemd.
type unit struct {
	file     string
	settings []setting
}

// setting is a line of a unit file.
type setting struct{ section, key, value string }

// unitDirs are where packages keep their units.
var unitDirs = []string{"usr/lib/systemd/system", "lib/systemd/system", "etc/systemd/system"}

// findUnit returns the service of a package: the one that was asked for, the one with its name, or the only one; nil
// without one.
func (c *conversion) findUnit() (*unit, error) {
	services := c.services()
	at := slices.IndexFunc(services, func(f string) bool {
		return strings.TrimSuffix(path.Base(f), ".service") == strings.TrimSuffix(cmp.Or(c.Unit, c.name), ".service")
	})
	if at < 0 && len(services) == 1 && c.Unit == "" {
		at = 0
	}
	if at < 0 {
		return nil, c.unknownUnit(services)
	}
	for n, f := range services {
		if n != at {
			c.note(code.NotMapped, f, "a further service; an agent has one")
		}
	}
	text, err := c.root.text(services[at])
	if err != nil {
		return nil, err
	}
	return parseUnit(services[at], text), nil
}

// services returns the services of the package that are no templates, and notes its other units.
func (c *conversion) services() (out []string) {
	c.root.files(func(name string) {
		if !slices.Contains(unitDirs, path.Dir(name)) {
			return
		}
		base := path.Base(name)
		switch ext := path.Ext(base); {
		case ext == ".service" && !strings.Contains(base, "@"):
			out = append(out, name)
		case ext == ".service" || ext == ".socket" || ext == ".timer" || ext == ".path" || ext == ".target":
			c.note(code.NotMapped, name, "an agent has one service, which is no template")
		}
	})
	return out
}

// unknownUnit refuses a package whose unit is not known, unless the options say what is run.
func (c *conversion) unknownUnit(services []string) error {
	if c.Unit == "" && (len(services) == 0 || len(c.Run) > 0 || c.Kind == agentv1.Kind_KIND_FILES) {
		return nil
	}
	var bases []string
	for _, f := range services {
		bases = append(bases, path.Base(f))
	}
	return fault.Refusef(fault.Invalid, code.NoCommand, "%s has %d services, and which is run is not known: %s", c.File,
		len(services), strings.Join(bases, ", ")).Try("--unit NAME")
}

// parseUnit reads a unit file. A line that ends with a backslash continues.
func parseUnit(file, text string) *unit {
	u, section, line := &unit{file: file}, "", ""
	for part := range strings.Lines(text) {
		part = strings.TrimSpace(part)
		if part == "" || strings.HasPrefix(part, "#") || strings.HasPrefix(part, ";") {
			continue // also between the parts of a line
		}
		if more, ok := strings.CutSuffix(part, `\`); ok {
			line += more + " "
			continue
		}
		line += part
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if key, value, ok := strings.Cut(line, "="); ok {
			u.settings = append(u.settings, setting{section, strings.TrimSpace(key), strings.TrimSpace(value)})
		}
		line = ""
	}
	return u
}

// values returns the values of a key. An empty one cancels those before it.
func (u *unit) values(section, key string) (out []string) {
	if u == nil {
		return nil
	}
	for _, s := range u.settings {
		switch {
		case s.section != section || s.key != key:
		case s.value == "":
			out = nil
		default:
			out = append(out, s.value)
		}
	}
	return out
}

// last returns the value of a key that counts.
func (u *unit) last(section, key string) string {
	all := u.values(section, key)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// words splits a command line or a list of assignments as systemd does, by white space outside of quotes.
func words(text string) []string {
	var s splitter
	for _, r := range text {
		s.add(r)
	}
	s.end()
	return s.words
}

// splitter collects words.
type splitter struct {
	words           []string
	word            strings.Builder
	quote           rune // the one that is open
	inside, escaped bool // in a word; behind a backslash
}

func (s *splitter) add(r rune) {
	isSpace := r == ' ' || r == '\t'
	switch {
	case s.escaped:
		if letter, ok := escapes[r]; ok {
			r = letter
		}
		s.word.WriteRune(r)
		s.escaped = false
	case r == '\\' && s.quote != '\'':
		s.escaped, s.inside = true, true
	case s.quote == 0 && isSpace:
		s.end()
	case r == s.quote:
		s.quote = 0
	case s.quote == 0 && (r == '"' || r == '\''):
		s.quote, s.inside = r, true
	default:
		s.word.WriteRune(r)
		s.inside = true
	}
}

// end ends a word.
func (s *splitter) end() {
	if s.inside {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.inside = false
}

// escapes are the characters that a letter behind a backslash stands for.
var escapes = map[rune]rune{'n': '\n', 't': '\t', 's': ' '}

// specifiers are what systemd replaces in the values of a unit of the system.
func (u *unit) specifiers() *strings.Replacer {
	name := strings.TrimSuffix(path.Base(u.file), ".service")
	return strings.NewReplacer("%%", "%", "%n", name+".service", "%N", name, "%p", name, "%t", "/run", "%S", "/var/lib",
		"%C", "/var/cache", "%L", "/var/log", "%E", "/etc")
}
