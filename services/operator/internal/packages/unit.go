package packages

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
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
	var services []string
	c.root.files(func(name string) {
		if !slices.Contains(unitDirs, path.Dir(name)) {
			return
		}
		base := path.Base(name)
		switch ext := path.Ext(base); {
		case ext == ".service" && !strings.Contains(base, "@"):
			services = append(services, name)
		case ext == ".service" || ext == ".socket" || ext == ".timer" || ext == ".path" || ext == ".target":
			c.note(code.NotMapped, name, "an agent has one service, which is no template")
		}
	})
	at := slices.IndexFunc(services, func(f string) bool {
		return strings.TrimSuffix(path.Base(f), ".service") == strings.TrimSuffix(cmp.Or(c.Unit, c.name), ".service")
	})
	switch {
	case at < 0 && c.Unit != "", at < 0 && len(services) > 1 && len(c.Run) == 0:
		var bases []string
		for _, f := range services {
			bases = append(bases, path.Base(f))
		}
		return nil, fault.Refusef(fault.Invalid, code.NoCommand, "%s has %d services, and which is run is not "+
			"known: %s", c.File, len(services), strings.Join(bases, ", ")).
			Try("--unit NAME, or --run PROGRAM, or --kind files")
	case len(services) == 0 || at < 0 && len(services) > 1:
		return nil, nil
	case at < 0:
		at = 0
	}
	for n, f := range services {
		if n != at {
			c.note(code.NotMapped, f, "a further service; an agent has one")
		}
	}
	text, err := c.root.ReadFile(services[at])
	if err != nil {
		return nil, err
	}
	return parseUnit(services[at], string(text)), nil
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
func words(text string) (out []string) {
	var word strings.Builder
	quote, inside := rune(0), false
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			if letter, ok := escapes[r]; ok {
				r = letter
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, inside = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if inside {
				out = append(out, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if inside {
		out = append(out, word.String())
	}
	return out
}

// escapes are the characters that a letter behind a backslash stands for.
var escapes = map[rune]rune{'n': '\n', 't': '\t', 's': ' '}

// specifiers are what systemd replaces in the values of a unit of the system.
func (u *unit) specifiers() *strings.Replacer {
	name := strings.TrimSuffix(path.Base(u.file), ".service")
	return strings.NewReplacer("%%", "%", "%n", name+".service", "%N", name, "%p", name, "%t", "/run", "%S", "/var/lib",
		"%C", "/var/cache", "%L", "/var/log", "%E", "/etc")
}
