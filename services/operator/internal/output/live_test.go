package output

import (
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

func TestProgressOfSeveralLinesFitsTheTerminalAndIsRedrawnInPlace(t *testing.T) {
	var out strings.Builder
	height := 24
	l := &Live{W: &out, On: true, Width: func() int { return 31 }, Height: func() int { return height }}
	l.SetLines("wave 1/2 passed", "waits for the servers of wave 2 to stay healthy until noon", "time left: soon")
	want := "\r\x1b[K" + strings.Join([]string{
		"wave 1/2 passed", "waits for the servers of wave", "  2 to stay healthy until noon", "time left: soon",
	}, "\n")
	if out.String() != want {
		t.Errorf("have %q\nwant %q", out.String(), want)
	}
	out.Reset()
	l.Say("a line that stays")
	if want := "\r\x1b[3A\x1b[Ja line that stays\n"; out.String() != want {
		t.Errorf("a line above has %q, want %q", out.String(), want)
	}
	out.Reset()
	height = 3
	l.SetLines("one", "two", "three "+strings.Repeat("x", 200))
	if have := out.String(); strings.Contains(have, "one") || strings.Count(have, "\n") != 1 {
		t.Errorf("a terminal of three lines has %q", have)
	}
	for _, row := range strings.Split(strings.TrimPrefix(out.String(), "\r\x1b[K"), "\n") {
		if text.StringWidthWithoutEscSequences(row) > 30 {
			t.Errorf("%q is wider than the terminal", row)
		}
	}
}
