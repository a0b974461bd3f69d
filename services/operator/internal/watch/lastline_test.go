package watch

import (
	"strings"
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
)

// A failure is followed by what the agent said last: one line, without what steers a terminal, of a bounded length.
func TestTheLastLineOfAFailedAgentIsShort(t *testing.T) {
	for tail, want := range map[string]string{
		"":                                   "",
		"starting\nunknown flag -bogus\n\n":  "unknown flag -bogus",
		"one\r\n\x1b[31mred\x07\ttext \x1b[": "[31mred text [",
		strings.Repeat("é", 200):             strings.Repeat("é", 98) + "…",
	} {
		have := display.LastLine(&taskv1.Task{Outcome: &taskv1.Outcome{LogTail: tail}})
		if have != want || len(have) > 200 {
			t.Errorf("%q: have %q, want %q", tail, have, want)
		}
	}
}
