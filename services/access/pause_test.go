package access

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A key that was connected for a day sends for a second and pauses for the next, so that its account is busy and quiet
// in turn.
func TestAKeyThatPausesIsNotCountedOverAllTheTimeThatItWasConnected(t *testing.T) {
	t.Parallel()
	s := newFloods(Config{}, nil, nil)
	account, at := topology.AccountNodes, time.Now()
	c := bus.Sender{Client: bus.Client{ID: 7, Since: at.Add(-24 * time.Hour)}, Messages: 1000}
	seen := 0
	for second := range 20 {
		if second%2 == 1 {
			c.Messages += 10 * mostMessages
		}
		at = at.Add(time.Second)
		c.At = at
		due := s.due(map[string]bus.AccountUse{account: {Messages: c.Messages}}, at)
		if second == 0 && !slices.Equal(due, watched) {
			t.Errorf("the first lists are of %v, want all", due)
		}
		if !slices.Contains(due, account) {
			continue
		}
		if tooMuch(account, s.since(account, connection{"", c.ID}, c)) {
			seen++
		}
		s.keep(account, map[connection]amount{{"", c.ID}: {c.Messages, c.Bytes, c.At}}, at)
	}
	if seen != 10 {
		t.Errorf("it is seen to send too much %d times, want 10", seen)
	}
}

func TestAQuietAccountIsListedNowAndThen(t *testing.T) {
	t.Parallel()
	s := newFloods(Config{}, nil, nil)
	at := time.Now()
	lists := 0
	for range 60 {
		at = at.Add(time.Second)
		for _, account := range s.due(nil, at) {
			lists++
			s.keep(account, nil, at)
		}
	}
	if want := 6 * len(watched); lists != want {
		t.Errorf("%d lists in a minute, want %d", lists, want)
	}
}
