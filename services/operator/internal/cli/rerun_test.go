package cli

import (
	"strings"
	"testing"
)

func TestAScreenFitsTheTerminal(t *testing.T) {
	have := screen("one\n"+strings.Repeat("x", 100)+"\nthree\nfour\nfive\n", 80, 5, true)
	want := "\x1b[2J\x1b[Hone\x1b[K\n" + strings.Repeat("x", 80) +
		"\x1b[K\nthree\x1b[K\n… and 2 lines more\x1b[K\n\x1b[J"
	if have != want {
		t.Errorf("have %q, want %q", have, want)
	}
	if have := screen("one\n", 80, 24, false); have != "\x1b[Hone\x1b[K\n\x1b[J" {
		t.Errorf("have %q", have)
	}
}
