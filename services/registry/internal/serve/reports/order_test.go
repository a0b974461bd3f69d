package reports

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/topology"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// A server whose journal was lost counts from the beginning again.
func TestReportsOfDifferentJournalsAreOrderedByTheStream(t *testing.T) {
	r := &Handler{last: map[series]position{}}
	for n, c := range []struct {
		journal          string
		sequence, stored uint64
		newest           bool
	}{
		{"old", 50, 100, true},
		{"old", 49, 99, false},  // put back, and overtaken
		{"new", 1, 101, true},   // the journal was lost
		{"old", 51, 100, false}, // put back, of the journal before
		{"new", 2, 102, true},
		{"new", 1, 101, false},
		{"new", 1, 103, true}, // set back
	} {
		report := &reportv1.Report{ServerId: "s", JournalId: c.journal, Sequence: c.sequence}
		if got := r.newest(report, topology.ReportAgents, c.stored); got != c.newest {
			t.Errorf("%d: %s/%d stored at %d is the newest: %v, want %v", n, c.journal, c.sequence, c.stored, got,
				c.newest)
		}
	}
}
