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

// A pipe gets a row again when its thing changed, and not when only its age or the width of its columns did.
func TestWhatIsWatchedInAPipeIsPrintedOnce(t *testing.T) {
	const before = "NAME   STATE    SINCE\nweb-1  online   59s\nweb-2  online   1m\nweb-3  offline  2h3m\n"
	const after = "NAME   STATE  SINCE\nweb-1  late   1s\nweb-2  online 2m\n"
	if have := changes("", before, true); have != before {
		t.Errorf("first %q", have)
	}
	if have, want := changes(before, after, true), "web-1  late   1s\ngone: web-3  offline  2h3m\n"; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
	if have, want := changes(before, after, false), "web-1  late   1s\n"; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
	if have := changes(after, after, true); have != "" {
		t.Errorf("the same: %q", have)
	}
}
