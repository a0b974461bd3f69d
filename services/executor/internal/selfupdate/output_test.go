package selfupdate

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAReasonEndsWithTheLastLines(t *testing.T) {
	long := strings.Repeat("x", 600)
	for name, c := range map[string]struct{ printed, want string }{
		"nothing":                {"", "; it printed nothing"},
		"empty lines":            {"\n\n  \n", "; it printed nothing"},
		"lines":                  {"one\n\ntwo\n", "; it printed last: one; two"},
		"lines that do not fit":  {long + "\n" + long + "\nlast\n", "; it printed last: " + long + "; last"},
		"a line that cannot fit": {strings.Repeat("y", 3000), "; it printed last: " + strings.Repeat("y", 1024)},
		"a line cut in a letter": {
			"z" + strings.Repeat("ü", 600), "; it printed last: z" + strings.Repeat("ü", 511) + "?",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w lastOutput
			if _, err := w.Write([]byte(c.printed)); err != nil {
				t.Fatal(err)
			}
			if got := w.because(); got != c.want || !utf8.ValidString(got) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
