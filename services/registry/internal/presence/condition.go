package presence

import (
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// conditionEvery is how long a condition is kept before the next one that is not good.
const conditionEvery = time.Minute

// DecideCondition returns the fact by which the condition that an executor reports changes, or
// nil. A change waits until a minute after the one before, except for a recovery: a server that is well is shown so at
// once, and one that flaps costs two facts a minute. The codes about the document's history count as a good condition,
// because package epoch decides on them.
func DecideCondition(s *serverv1.Server, last Beat, now time.Time) *serverv1.ConditionChanged {
	if !server.Managed(s) || last.At.IsZero() || last.State == serverv1.ExecutorState_EXECUTOR_STATE_UNSPECIFIED {
		return nil
	}
	state, code := conditionOf(last)
	have := s.GetCondition()
	good := isGood(state, code)
	if have == nil && good {
		return nil // without a record the condition is taken to be good
	}
	if have.GetState() == state && have.GetCode() == code {
		return nil // a reason that varies is not another condition
	}
	ago := now.Sub(have.GetSince().AsTime())
	if have != nil && !good && ago >= 0 && ago < conditionEvery {
		return nil
	}
	next := &serverv1.ConditionChanged{State: state, Code: code}
	if !aboutLedger(last.Code) {
		next.Reason = cleanReason(last.Reason)
	}
	return next
}

// conditionOf returns the condition that a beat reports. It is decided at each beat and each second of each server.
func conditionOf(last Beat) (serverv1.ExecutorState, string) {
	if aboutLedger(last.Code) {
		return serverv1.ExecutorState_EXECUTOR_STATE_RUNNING, ""
	}
	return last.State, cleanCode(last.Code)
}

// aboutLedger reports whether a code is about what the ledger lost, which is recorded as such.
func aboutLedger(reported string) bool {
	return reported == code.LedgerBehind || reported == code.PlaceUnproven
}

func isGood(state serverv1.ExecutorState, code string) bool {
	return state == serverv1.ExecutorState_EXECUTOR_STATE_RUNNING && code == ""
}

// cleanCode returns a code as it may be recorded: capitals, digits and underscores.
func cleanCode(code string) string {
	return strings.Map(func(c rune) rune {
		if c == '_' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, code)
}

// cleanReason returns a sentence as it may be recorded: on one line.
func cleanReason(reason string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, reason)
}

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
