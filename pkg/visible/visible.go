// Package visible removes or escapes the characters that steer a terminal or change the order in which a line is read.
// Agents, servers and other people choose texts that end up on the terminal of root.
//
//  1. Line is for what enters: a reason in a record or a report has none of them.
//  2. Text and JSON are for what leaves: Text drops them, JSON escapes them, so that programs lose nothing.
//  3. Writer is for a program that formats in many places: no Write lets one through.
package visible

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Steers reports whether a character steers a terminal or the direction of text.
func Steers(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < ' ', r >= 0x7f && r < 0xa0: // C0, DEL and C1, where U+009B begins an escape sequence
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f: // marks of direction
		return true
	case r == 0x2028, r == 0x2029: // separators of lines and paragraphs
		return true
	}
	return r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 // embeddings, overrides and isolates
}

// Text returns a text without the characters that steer. Line breaks and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if Steers(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")) // a byte of its own can be a control character in other encodings
}

// Line returns a text as one line without the characters that steer.
func Line(s string) string {
	s = strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ")
	return Text(strings.ReplaceAll(s, "\t", " "))
}

// JSON returns compact or indented JSON with the characters that steer escaped: they can only be in its strings.
func JSON(data []byte) []byte {
	if clean(data) {
		return data
	}
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case Steers(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		case r == utf8.RuneError && n == 1:
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	return out
}

// clean reports whether data is printable ASCII with line breaks and tabs, as most of what is written.
func clean(data []byte) bool {
	for _, b := range data {
		if b >= 0x7f || b < ' ' && b != '\n' && b != '\t' {
			return false
		}
	}
	return true
}

// Writer returns a writer that escapes the characters that steer, as in JSON. Each Write must hold whole characters.
func Writer(to io.Writer) io.Writer { return writer{to} }

type writer struct{ to io.Writer }

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := w.to.Write(JSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
