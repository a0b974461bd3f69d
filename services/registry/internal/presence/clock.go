package presence

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// clockBeats is how many of the last beats are compared.
	clockBeats = 5
	// clockKnown is how many are enough; one may have waited on its way.
	clockKnown = 3
	// clockBound is by how much a clock may differ: more than a beat takes, and less than confuses a reader of times.
	clockBound = 30 * time.Second
)

// Clock is what the last beats of a server show of its clock. The zero value knows nothing.
type Clock struct {
	ahead [clockBeats]time.Duration // when it was sent, by the server, less when it was received
	next  int
	known int
	since time.Time // since when it differs; zero while it does not
}

// Add returns what is known after one more beat. One of an executor that does not say when it sent it forgets
// everything.
func (c Clock) Add(sent *timestamppb.Timestamp, received time.Time) Clock {
	if sent == nil {
		return Clock{}
	}
	c.ahead[c.next] = sent.AsTime().Sub(received)
	c.next, c.known = (c.next+1)%clockBeats, min(c.known+1, clockBeats)
	switch {
	case c.Ahead() == 0:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = received
	}
	return c
}

// Ahead returns how far the clock is ahead, negative when it is behind; 0 while it agrees, or too few beats came. A
// beat that waited on its way looks as if the clock were behind, so the one that came fastest counts.
func (c Clock) Ahead() time.Duration {
	if c.known < clockKnown {
		return 0
	}
	most := c.ahead[0]
	for _, d := range c.ahead[1:c.known] {
		most = max(most, d)
	}
	if most.Abs() <= clockBound {
		return 0
	}
	return most.Round(time.Second)
}

// DiffersSince returns since when the clock differs; zero while it does not.
func (c Clock) DiffersSince() time.Time { return c.since }
