package events

import (
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Facts that arrive one by one have the columns of the headers that were printed.
func TestFactsThatAreFollowedOnANarrowTerminalKeepTheirColumns(t *testing.T) {
	var out strings.Builder
	printer := &output.Printer{
		Out: &out, Now: time.Now, Format: output.FormatTable, Width: func() int { return 60 },
	}
	p := &eventPrinter{env: &cli.Env{Output: printer}}
	first := event{
		Sequence: 1, Time: "2026-01-31T12:00:00Z", Actor: "ann", Noun: "agent", Key: "beacon", Fact: "created",
		detail: strings.Repeat("long ", 20),
	}
	second := first
	second.Sequence, second.detail = 2, "short"
	for _, e := range []event{first, second} {
		if _, err := p.add([]event{e}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if strings.Count(out.String(), "SEQ") != 1 || !strings.HasPrefix(lines[0], "SEQ") {
		t.Fatalf("printed\n%s", out.String())
	}
	rows := 0
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, "1 ") || strings.HasPrefix(line, "2 ") {
			rows++
			if have, want := len(strings.Fields(line)), len(strings.Fields(lines[0])); have != want {
				t.Errorf("%d cells under %d headers:\n%s", have, want, out.String())
			}
		}
	}
	if rows != 2 || !strings.Contains(out.String(), "    detail: short\n") {
		t.Errorf("%d rows; printed\n%s", rows, out.String())
	}
}
