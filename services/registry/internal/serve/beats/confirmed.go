package beats

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/confirm"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// longestAge is how old a look that a beat tells of may be. An older one confirms nothing that matters.
const longestAge = 365 * 24 * time.Hour

// Confirmations is when servers last confirmed what is recorded of their instances.
type Confirmations struct {
	records *records.Records
	book    *confirm.Book
}

// add notes when a server's executor last found what is recorded of its instances. It is kept in memory, not in
// the ledger: a fact for each beat would fill it. A list that was not recorded yet, or waits because the server changes
// too often, has another sum and confirms nothing; neither do the beats of two machines with one identity.
func (c *Confirmations) add(id string, beat *reportv1.Beat, at time.Time) {
	if beat.AgentsAgeMs == 0 || beat.AgentsAgeMs > uint64(longestAge.Milliseconds()) {
		return
	}
	var recorded instance.Sum
	duplicate := false
	c.records.Follower.Read(func() {
		s, _ := c.records.View.Server(id)
		duplicate = s.GetDuplicate() != nil
		for i := range c.records.View.InstancesOf(id) {
			recorded.AddRecord(i)
		}
	})
	if uint64(recorded) == beat.AgentsSum && !duplicate {
		c.book.Confirm(id, at.Add(-time.Duration(beat.AgentsAgeMs-1)*time.Millisecond))
	}
}

// At returns when a server last confirmed what is recorded of its instances; nil when this process does not
// know.
func (c *Confirmations) At(id string) *timestamppb.Timestamp {
	if at := c.book.At(id); !at.IsZero() {
		return timestamppb.New(at)
	}
	return nil
}

// Unconfirmed returns the filter of what was not confirmed within a time; nil for none.
func (c *Confirmations) Unconfirmed(within *durationpb.Duration) (*view.Unconfirmed, error) {
	if within == nil {
		return nil, nil
	}
	if within.CheckValid() != nil || within.AsDuration() <= 0 {
		return nil, request.Invalid(code.Invalid, "unconfirmed for %v; want a time above 0", within.AsDuration()).
			Try("--unconfirmed 10m")
	}
	return &view.Unconfirmed{Since: c.records.Now().Add(-within.AsDuration()), Of: c.book}, nil
}
