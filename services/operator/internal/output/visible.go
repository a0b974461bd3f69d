package output

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Texts come from servers and from other people. No format prints a character of theirs that steers the terminal or
// changes the order in which a line is read: tables and lines leave them out, and JSON and YAML escape them.

// steers reports whether a character steers a terminal or the direction of text.
func steers(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL and C1, of which U+009B begins an escape sequence
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f: // marks of direction
		return true
	case r == 0x2028, r == 0x2029: // separators of lines and paragraphs
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 // embeddings, overrides and isolates
}

// Visible returns a text without the characters that would steer the terminal. Line breaks and tabs stay.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")) // a byte of its own can be a control character in other encodings
}

// visibleJSON returns compact JSON with those characters escaped: they can only be in its strings.
func visibleJSON(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if steers(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	return out
}
