package intake

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// DefaultBudget is how many bytes of facts one server may cause in a day. A healthy server causes one fact of some 600
// bytes each time it comes online, a few kilobytes a day; one whose agent fails and recovers all day causes 1 MiB, and
// one whose network does 2 MiB.
const DefaultBudget = 8 << 20

// overhead is what a fact takes in the ledger beside its body: subject, headers and framing, rounded up.
const overhead = 600

// charge adds a fact to the counts of the server that caused it.
func charge(in *serverv1.Intake, f ledger.Fact) {
	if day := dayOf(f.At); in.Day != day {
		in.Day, in.Bytes, in.Facts = day, 0, 0
	}
	in.Bytes += uint64(overhead + proto.Size(f.Body))
	in.Facts++
}

// Over reports whether a server caused more than its budget today.
func Over(s *serverv1.Server, budget uint64, now time.Time) bool {
	in := s.GetIntake()
	return in.GetBytes() >= budget && in.GetDay() == dayOf(now)
}

// Quarantine returns the fact that shuts out a server that is over its budget, or nil.
func Quarantine(s *serverv1.Server, budget uint64, now time.Time) *serverv1.Quarantined {
	if !server.Believed(s) || !Over(s, budget, now) {
		return nil
	}
	return &serverv1.Quarantined{Code: code.LedgerBudget, Reason: fmt.Sprintf(
		"its reports and beats wrote %s in %d facts on %s (UTC), and the budget of a server is %s a day; "+
			"find out what it repeats, then: garrison server release %s",
		mib(s.Intake.Bytes), s.Intake.Facts, now.UTC().Format(time.DateOnly), mib(budget), s.Name)}
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// dayOf returns the number of a time's day in UTC.
func dayOf(t time.Time) uint32 { return uint32(t.Unix() / (24 * 60 * 60)) }
