package output

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
)

// color is how text is shown on a terminal: the parameter of an escape sequence.
type color string

const (
	none   color = ""
	bold   color = "1"
	faint  color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

// Paint reports whether text is coloured. Painting is the last step before a write: it follows Visible, which removes
// the escape sequences of others, and every measurement of a width.
type Paint bool

// tones are the colours of the words for states.
var tones = map[listing.Tone]color{
	listing.Good: green, listing.Look: yellow, listing.Bad: red, listing.Plain: none, listing.Past: faint,
}

// states are the colours of the words for states. Another word has none.
var states = func() map[string]color {
	out := map[string]color{}
	for word, tone := range listing.Tones {
		out[word] = tones[tone]
	}
	return out
}()

// actions are the colours of the words for what an apply does to an object.
var actions = map[string]color{"create": green, "update": yellow, "delete": red}

// wordsBelow are the colours of words in the cells below a title.
var wordsBelow = map[string]map[string]color{
	"STATE": states, "HEALTH": states, "PRESENCE": states, "ACTION": actions,
}

// cellsBelow are the colours of whole cells below a title: ids and next steps do not stand out, and what a change
// removes and adds looks like a line of a diff.
var cellsBelow = map[string]color{
	"ID": faint, "SERVER-ID": faint, "INTENT": faint, "TASK": faint, "SEQ": faint, "DIGEST": faint, "NEXT": faint,
	"FROM": faint, "BEFORE": red, "AFTER": green,
}

// in returns a text in a colour.
func (p Paint) in(c color, text string) string {
	if !p || c == none || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

var (
	aWord  = regexp.MustCompile(`[a-z][a-z-]*`)
	change = regexp.MustCompile(`(\S+) → (\S+)`)
)

// Cell returns a cell below a title.
func (p Paint) Cell(title, text string) string {
	if !p {
		return text
	}
	if words := wordsBelow[title]; words != nil {
		return aWord.ReplaceAllStringFunc(text, func(word string) string { return p.in(words[word], word) })
	}
	if c := cellsBelow[title]; c != none || text == "-" {
		return p.in(cmp.Or(c, faint), text)
	}
	return p.changes(text)
}

// changes returns a text with every FROM → TO in it coloured: FROM faint, TO bold.
func (p Paint) changes(text string) string {
	if !bool(p) || !strings.Contains(text, "→") {
		return text
	}
	return change.ReplaceAllString(text, p.in(faint, "$1")+" → "+p.in(bold, "$2"))
}

// Title returns the title of a column or of a field.
func (p Paint) Title(text string) string { return p.in(bold, text) }

// leads is how many parts of a message, with ": " between them, may hold its state or its code.
const leads = 4

var (
	refusal = regexp.MustCompile(`^[A-Z][A-Z0-9_]{3,}$`)
	lead    = regexp.MustCompile(`^[a-z-]+(,| after |$)`)
)

// Message returns a message with the state or the code that it leads with coloured: "web-1: up beacon: undone after 1s"
// and "registry: NO_MATCH: no image …".
func (p Paint) Message(text string) string {
	if !p {
		return text
	}
	parts := strings.SplitN(text, ": ", leads)
	for n, part := range parts {
		word := aWord.FindString(part)
		switch {
		case refusal.MatchString(part) && n < len(parts)-1:
			parts[n] = p.in(red, part)
		case lead.MatchString(part) && states[word] != none:
			parts[n] = p.in(states[word], word) + strings.TrimPrefix(part, word)
		default:
			parts[n] = p.changes(part)
			continue
		}
		break
	}
	return strings.Join(parts, ": ")
}

var (
	counted = regexp.MustCompile(`\b([1-9][0-9]*) ([a-z][a-z-]*)`)
	heading = regexp.MustCompile(`^[A-Z][A-Z -]*$`)
)

// Counts returns a line with counts of states coloured: "3 online, 1 offline".
func (p Paint) Counts(line string) string {
	if !p {
		return line
	}
	return counted.ReplaceAllStringFunc(line, func(found string) string {
		_, word, _ := strings.Cut(found, " ")
		return p.in(states[word], found)
	})
}

// Screen returns a text of several lines: headings bold, commands that stand alone faint, and counts of states.
func (p Paint) Screen(text string) string {
	if !p {
		return text
	}
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		switch {
		case heading.MatchString(line):
			lines[n] = p.Title(line)
		case strings.HasPrefix(strings.TrimLeft(line, " "), "garrison "):
			lines[n] = p.in(faint, line)
		default:
			lines[n] = p.Counts(line)
		}
	}
	return strings.Join(lines, "\n")
}
