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
	if rows != 2 || strings.Contains(out.String(), "detail:") {
		t.Errorf("%d rows; printed\n%s", rows, out.String())
	}
}

// On a terminal of 80 columns a fact has a line, also with the longest words that are usual.
func TestAFactTakesOneLineOnAnOrdinaryTerminal(t *testing.T) {
	var out strings.Builder
	printer := &output.Printer{
		Out: &out, Now: time.Now, Format: output.FormatTable, Width: func() int { return 80 },
	}
	p := &eventPrinter{env: &cli.Env{Output: printer}}
	if _, err := p.add([]event{
		{
			Sequence: 1, Time: "2026-01-31T12:00:00Z", Actor: "task-dispatcher", Noun: "environment",
			Fact: "sysinfo-seen", Key: "01a209c5-16f0-7f0f-b7e8-dc2aa4e24d20.beacon", detail: "1.0.0 good",
		},
		{Sequence: 2, Time: "2026-02-01T12:00:00Z", Actor: "ann", Noun: "agent", Fact: "created", Key: "beacon"},
	}); err != nil {
		t.Fatal(err)
	}
	want := `TIME            ACTOR            KEY                FACT              DETAIL
01-31 12:00:00  task-dispatcher  01a209c5-16f0.be…  environment sys…  1.0.0 good
02-01 12:00:00  ann              beacon             agent created     -
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
