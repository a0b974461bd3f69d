package ansible

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/nearest"
)

// section is the head of a section: [group], [group:children] or [group:vars].
var section = regexp.MustCompile(`^\[([^\]:\s]+)(?::(\w+))?\]\s*(?:[#;].*)?$`)

// spaced is the head of a section whose group has a space in its name.
var spaced = regexp.MustCompile(`^\[[^\]]*\s[^\]]*\]`)

// mention is a line that names a group, which a section has to define.
type mention struct {
	line  int
	group string
	how   string
}

// readINI reads the INI form.
func readINI(file, text string) (*Inventory, error) {
	i := newInventory()
	name, part := ungrouped, "hosts"
	number := 0
	defined, mentions := map[string]bool{all: true, ungrouped: true}, []mention{}
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		var err error
		if line[0] == '[' && section.MatchString(line) {
			m := section.FindStringSubmatch(line)
			name, part = m[1], m[2]
			if part == "" {
				part = "hosts"
			}
			i.group(name)
			switch part {
			case "hosts", "children":
				defined[name] = true
			case "vars":
				mentions = append(mentions, mention{number, name, "section " + m[0]})
			default:
				err = fmt.Errorf("section %s is not one of [GROUP], [GROUP:children] and [GROUP:vars]", line)
			}
		} else if spaced.MatchString(line) {
			err = fmt.Errorf("section %s: the name of a group has no spaces, such as [web_servers]", line)
		} else if err = i.line(name, part, line); err == nil && part == "children" {
			child, _ := split(line)
			mentions = append(mentions, mention{number, child[0], "[" + name + ":children]"})
		}
		if err != nil {
			return nil, refuse("%s:%d: %v", file, number, err)
		}
	}
	return i, undefined(file, defined, mentions)
}

// undefined refuses a group that is named and that no section defines: the hosts that were meant would be lost.
func undefined(file string, defined map[string]bool, mentions []mention) error {
	for _, m := range mentions {
		if defined[m.group] {
			continue
		}
		hint := ""
		if near := nearest.Name(m.group, maps.Keys(defined)); near != "" {
			hint = fmt.Sprintf("; the nearest one is %q", near)
		}
		return refuse("%s:%d: %s names the group %q, which no section [%s] defines%s", file, m.line, m.how, m.group,
			m.group, hint)
	}
	return nil
}

// line takes a line of a section.
func (i *Inventory) line(name, part, line string) error {
	switch part {
	case "vars":
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VALUE", line)
		}
		words, err := split(strings.TrimSpace(v))
		if err != nil {
			return err
		}
		i.group(name).vars[strings.TrimSpace(k)] = strings.Join(words, " ")
		return nil
	}
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return err
	}
	if part == "children" {
		if len(words) > 1 {
			return fmt.Errorf("unexpected %q behind the name of a group", words[1])
		}
		i.group(words[0])
		i.group(name).children[words[0]] = true
		return nil
	}
	v := vars{}
	for _, word := range words[1:] {
		k, value, ok := strings.Cut(word, "=")
		if !ok || k == "" {
			return fmt.Errorf("%q is not NAME=VALUE", word)
		}
		v[k] = value
	}
	hosts, err := expand(withoutPort(words[0]))
	for _, h := range hosts {
		if err == nil {
			err = i.host(h, name, v)
		}
	}
	return err
}

// split splits a line into words at white space. Quotes keep white space, and # begins a comment.
func split(line string) (words []string, err error) {
	word, quote, inWord := strings.Builder{}, rune(0), false
	end := func() {
		if inWord {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			end()
		case c == '#' && !inWord:
			return words, nil
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	end()
	return words, nil
}
