package ansible

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"strconv"
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

// ranged is a range in the name of a host: [01:20], [a:f], or with a step, [0:10:2].
var ranged = regexp.MustCompile(`\[([0-9]+|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]`)

// maxDigits bounds the numbers of a range.
const maxDigits = 9

// expand returns the hosts that a name with ranges stands for, such as web[01:20].
func expand(name string) ([]string, error) {
	at := ranged.FindStringSubmatchIndex(name)
	if at == nil {
		if strings.ContainsAny(name, "[]") {
			return nil, fmt.Errorf("%q has a range that is not [FROM:TO] or [FROM:TO:STEP]", name)
		}
		return []string{name}, nil
	}
	m := ranged.FindStringSubmatch(name)
	parts, err := span(m[1], m[2], m[3])
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	rest, err := expand(name[at[1]:])
	if err != nil {
		return nil, err
	}
	if len(parts)*len(rest) > MaxHosts {
		return nil, fmt.Errorf("%q stands for more than %d hosts", name, MaxHosts)
	}
	var out []string
	for _, p := range parts {
		for _, r := range rest {
			out = append(out, name[:at[0]]+p+r)
		}
	}
	return out, nil
}

// span returns the texts of a range. A number that begins with 0 sets the width of all.
func span(from, to, step string) (out []string, err error) {
	by := 1
	if step != "" {
		if by, err = strconv.Atoi(step); err != nil || by < 1 {
			return nil, fmt.Errorf("the step %s is not a number from 1", step)
		}
	}
	first, isNumber := number(from)
	last, other := number(to)
	if isNumber != other {
		return nil, fmt.Errorf("the range mixes numbers and letters")
	}
	if first > last || len(from) > maxDigits || len(to) > maxDigits {
		return nil, fmt.Errorf("the range from %s to %s is empty or too large", from, to)
	}
	if (last-first)/by >= MaxHosts {
		return nil, fmt.Errorf("the range stands for more than %d hosts", MaxHosts)
	}
	for n := first; n <= last; n += by {
		switch {
		case !isNumber:
			out = append(out, string(rune(n)))
		case from[0] == '0' && len(from) > 1:
			out = append(out, fmt.Sprintf("%0*d", len(from), n))
		default:
			out = append(out, strconv.Itoa(n))
		}
	}
	return out, nil
}

// number returns what a bound of a range counts as: a number, or the code of a letter.
func number(bound string) (n int, isNumber bool) {
	if n, err := strconv.Atoi(bound); err == nil {
		return n, true
	}
	return int(bound[0]), false
}

// The forms of a host with its port: a name or an IPv4 address, with ranges, or an IPv6 address in brackets. One
// without brackets has no port.
var (
	nameAndPort = regexp.MustCompile(`^((?:[^\[\]:]|\[[^\[\]]*\])+):[0-9]+$`)
	inBrackets  = regexp.MustCompile(`^\[(.+)\]:[0-9]+$`)
)

// withoutPort returns a host without the port behind it, and an IPv6 address without its brackets.
func withoutPort(host string) string {
	for _, form := range []*regexp.Regexp{nameAndPort, inBrackets} {
		if m := form.FindStringSubmatch(host); m != nil {
			host = m[1]
			break
		}
	}
	if bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"); isIPv6(bare) {
		return bare
	}
	return host
}

// isIPv6 reports whether a text is an IPv6 address.
func isIPv6(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is6()
}
