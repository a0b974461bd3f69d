package ansible

import (
	"fmt"
	"regexp"
	"strings"
)

// section is the head of a section: [group], [group:children] or [group:vars].
var section = regexp.MustCompile(`^\[([^\]:\s]+)(?::(\w+))?\]\s*(?:[#;].*)?$`)

// readINI reads the INI form.
func readINI(file, text string) (*Inventory, error) {
	i := newInventory()
	name, part := ungrouped, "hosts"
	number := 0
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
			if part != "hosts" && part != "children" && part != "vars" {
				err = fmt.Errorf("section %s is not one of [GROUP], [GROUP:children] and [GROUP:vars]", line)
			}
		} else {
			err = i.line(name, part, line)
		}
		if err != nil {
			return nil, refuse("%s:%d: %v", file, number, err)
		}
	}
	return i, nil
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

// withoutPort returns a host without the port behind it.
func withoutPort(host string) string {
	at := strings.LastIndex(host, ":")
	if at > strings.LastIndex(host, "]") && strings.Trim(host[at+1:], "0123456789") == "" &&
		!strings.Contains(host[:at], "::") {
		return host[:at]
	}
	return host
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
