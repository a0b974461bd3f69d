package bus

import (
	"context"
	"time"
)

// LeaderSettles is how long a new leader of a stream may apply nothing of what the one before announced, or of what a
// replica that is ahead of it answered.
const LeaderSettles = 10 * time.Second

// StreamFrom is Stream for a caller that has read up to a sequence. On a bus with several servers the leader answers
// how far it has applied what it stores, and a new one may be behind what the caller has read. So it is asked again
// while it applies more, and for LeaderSettles after that, before a stream counts as shorter.
func (c *Conn) StreamFrom(ctx context.Context, stream string, read uint64) (Stream, error) {
	grew, last := time.Now(), uint64(0)
	for wait := replayLag; ; wait = min(2*wait, replayPoll) {
		s, err := c.Stream(ctx, stream)
		if err != nil || s.LastSequence >= read || !c.ofSeveral() {
			return s, err
		}
		if s.LastSequence > last {
			grew, last = time.Now(), s.LastSequence
		}
		if time.Since(grew) > LeaderSettles {
			return s, nil
		}
		sleep(ctx, wait)
	}
}
