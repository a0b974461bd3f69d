package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// freshPause is the pause before a replica is asked again that does not reach far enough.
const freshPause = 20 * time.Millisecond

// DirectGetFresh reads the last message on each of some subjects, in order and without those that have none, from a
// replica that holds at least the sequence floor. Unlike DirectGet it proves that a message which is missing is
// missing: a replica that lags behind is asked again, and the error is Unavailable when it does not catch up in time.
func (c *Conn) DirectGetFresh(ctx context.Context, stream string, floor uint64, subjects ...string) ([]Message, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		found, upTo, err := c.lastOf(ctx, stream, subjects)
		if err != nil || upTo >= floor {
			return found, err
		}
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "read %s: the replica that answers ends at %d, and %d is needed",
				stream, upTo, floor)
		case <-time.After(freshPause):
		}
	}
}

// lastOf reads the last message on each subject, and up to which sequence the replica that answered could look. Only
// an answer with a message says that, so the last message of the stream is asked for too.
func (c *Conn) lastOf(ctx context.Context, stream string, subjects []string) ([]Message, uint64, error) {
	end, err := c.DirectGetLast(ctx, stream, ">")
	if fault.Is(err, fault.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	body, err := json.Marshal(map[string]any{"multi_last": append([]string{end.Subject}, subjects...)})
	if err != nil {
		return nil, 0, err
	}
	var found []Message
	upTo := uint64(0)
	err = c.directGetMany(ctx, stream, body, func(m *nats.Msg) (last bool, err error) {
		if statusOf(m.Header) == "204" {
			upTo, err = strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
			return true, err
		}
		s, err := stored(m)
		if fault.Is(err, fault.NotFound) { // this replica does not reach the end that another one knows
			return true, nil
		}
		if err == nil && slices.Contains(subjects, s.Subject) {
			found = append(found, s)
		}
		return false, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the last messages of %s: %w", stream, err)
	}
	return found, upTo, nil
}
