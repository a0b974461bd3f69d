// Package budget bounds what one writer, a server or a user, may have recorded in the ledger: the bytes of a day, and
// how often one record may change. Everything here is pure and rests on facts, so that replicas agree, and a restart
// forgets nothing.
//
// Guarantees:
//
//  1. A writer that is over its budget causes no further fact that day, except for those that stop something.
//  2. A day is one of UTC, and each fact counts with what it takes beside its body.
//  3. A clock that was set back delays nothing.
package budget

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/shallow"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// DefaultServer is how many bytes of facts one server may cause in a day. A healthy server causes one fact of some
	// 600 bytes each time it comes online, a few kilobytes a day; one whose agent fails and recovers all day causes
	// 1 MiB, and one whose network does 2 MiB.
	DefaultServer = 8 << 20
	// DefaultUser is how many bytes of facts one user may cause in a day. An install on 100,000 servers takes some
	// 450 MiB with its tasks.
	DefaultUser = 8 << 30
	// DefaultReporter is the same for reports of external instances. The first one of 100,000 instances takes 90 MiB.
	DefaultReporter = 128 << 20
)

// overhead is what a fact takes in the ledger beside its body: subject, headers and framing, rounded up.
const overhead = 600

// Charge adds a fact to the counts of the writer that caused it, and returns them. Those before are not changed.
func Charge(in *serverv1.Intake, f ledger.Fact) *serverv1.Intake {
	next := &serverv1.Intake{}
	if in != nil {
		next = shallow.Copy(in)
	}
	if day := dayOf(f.At); next.Day != day {
		next.Day, next.Bytes, next.Facts = day, 0, 0
	}
	next.Bytes += Size(f.Body)
	next.Facts++
	return next
}

// Size returns how many bytes a fact with a body takes in the ledger.
func Size(body proto.Message) uint64 { return uint64(overhead + proto.Size(body)) }

// Used returns how many bytes a writer caused on the day of a time.
func Used(in *serverv1.Intake, now time.Time) uint64 {
	if in.GetDay() != dayOf(now) {
		return 0
	}
	return in.GetBytes()
}

// Over reports whether a writer used up its budget on the day of a time.
func Over(in *serverv1.Intake, budget uint64, now time.Time) bool { return Used(in, now) >= budget }

// MiB returns a number of bytes as text.
func MiB(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// dayOf returns the number of a time's day in UTC.
func dayOf(t time.Time) uint32 { return uint32(t.Unix() / (24 * 60 * 60)) }

const (
	// Burst is how often one record may change in a row.
	Burst = 10
	// Every is how often it may change after that.
	Every = time.Minute
	// longest is how far ahead the changes of a record count at most.
	longest = Burst * Every
)

// Until returns until when the changes of a record count, after one more at a time: each one counts for Every.
func Until(before *timestamppb.Timestamp, at time.Time) *timestamppb.Timestamp {
	from := at
	if b := before.AsTime(); b.After(at) && b.Sub(at) <= longest {
		from = b
	}
	return timestamppb.New(from.Add(Every))
}

// Due returns when a record may change again, of whose changes it is known until when they count.
func Due(until *timestamppb.Timestamp) time.Time { return until.AsTime().Add(Every - longest) }

// MayChange reports whether a record may change.
func MayChange(until *timestamppb.Timestamp, now time.Time) bool {
	due := Due(until)
	return until == nil || !now.Before(due) || due.Sub(now) > Every
}
