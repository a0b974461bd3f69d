package access

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// A suspension ends by itself, and the next one of the same key lasts twice as long.
func TestASuspensionEndsAndTheNextOneIsLonger(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newFloods(Config{Now: func() time.Time { return now }}, nil, nil)
	refused := func() []string {
		want := map[string]view.Revoked{topology.AccountNodes: {Keys: []string{"b"}}}
		s.add(want, time.Time{})
		return want[topology.AccountNodes].Keys
	}
	for _, want := range []time.Duration{suspendFirst, 2 * suspendFirst, 4 * suspendFirst} {
		if got := s.suspend(topology.AccountNodes, "a"); got != want {
			t.Errorf("suspended for %v, want %v", got, want)
		}
		if again := s.suspend(topology.AccountNodes, "a"); again != 0 {
			t.Errorf("suspended again for %v meanwhile", again)
		}
		if got := refused(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("refused %v, want a and b", got)
		}
		now = now.Add(want)
		if got := refused(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("refused %v after the suspension, want b", got)
		}
	}
	now = now.Add(suspendMost + time.Second)
	refused()
	if got := s.suspend(topology.AccountNodes, "a"); got != suspendFirst {
		t.Errorf("after it behaved for long: %v, want %v", got, suspendFirst)
	}
}

func TestOnlyAnAccountThatSendsMoreThanOneKeyMayIsLookedAt(t *testing.T) {
	t.Parallel()
	s := newFloods(Config{}, nil, nil)
	nodes, ops := topology.AccountNodes, topology.AccountOps
	at := time.Now()
	for _, step := range []struct {
		name       string
		nodes, ops bus.AccountUse
		after      time.Duration
		want       []string
	}{
		{"the first look, at a bus that runs for long", bus.AccountUse{Messages: 1e9, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9}, time.Second, nil},
		{"as much as one key may", bus.AccountUse{Messages: 1e9 + mostMessages, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9 + mostOfPerson}, time.Second, nil},
		{"more messages of servers", bus.AccountUse{Messages: 1e9 + 2*mostMessages + 1, Bytes: 1e12},
			bus.AccountUse{Messages: 1e9 + mostOfPerson}, time.Second, []string{nodes}},
		{"more bytes of servers, more messages of people",
			bus.AccountUse{Messages: 1e9 + 2*mostMessages + 1, Bytes: 1e12 + mostBytes + 1},
			bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, []string{nodes, ops}},
		{"as many in a second, of several", bus.AccountUse{Messages: 1e9 + 4*mostMessages, Bytes: 1e12 + mostBytes + 1},
			bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, 2 * time.Second, nil},
		{"a fleet that beats", bus.AccountUse{
			Messages: 1e9 + 4*mostMessages + mostMessages + 4_000, Bytes: 1e12 + mostBytes + 1, Connections: 10_000,
		}, bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, nil},
		{"a fleet that beats, and a key that sends too much", bus.AccountUse{
			Messages: 1e9 + 4*mostMessages + 3*mostMessages + 10_000, Bytes: 1e12 + mostBytes + 1, Connections: 10_000,
		}, bus.AccountUse{Messages: 1e9 + 2*mostOfPerson + 1}, time.Second, []string{nodes}},
		{"the bus started again", bus.AccountUse{}, bus.AccountUse{}, time.Second, nil},
	} {
		at = at.Add(step.after)
		got := s.busy(map[string]bus.AccountUse{nodes: step.nodes, ops: step.ops}, at)
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}

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
