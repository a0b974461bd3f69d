package console

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func bearer(t *testing.T, name string) string {
	t.Helper()
	authority, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	who, err := authority.Person(name, topology.Operator, "nats://127.0.0.1", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return who.Bearer()
}

func (s *sessions) signIn(t *testing.T, token string) string {
	t.Helper()
	code, _, err := s.offer(token, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	word, err := s.begin(code)
	if err != nil {
		t.Fatal(err)
	}
	return word
}

func TestASessionEndsWhenItsPersonIsAway(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	s := newSessions(c.now)
	word := s.signIn(t, bearer(t, "ann"))
	if is, ok := s.find(word, true); !ok || is.user != "ann" || is.role != topology.Operator {
		t.Fatalf("the session is %v, %v", is, ok)
	}
	for range 11 { // a page that is open asks by itself
		c.at = c.at.Add(5 * time.Minute)
		if _, ok := s.find(word, false); !ok {
			t.Fatal("the session ended within an hour")
		}
	}
	c.at = c.at.Add(5 * time.Minute)
	if _, ok := s.find(word, false); ok {
		t.Error("the session outlives an hour in which its person asked for nothing")
	}

	word = s.signIn(t, bearer(t, "ann"))
	for range 15 {
		c.at = c.at.Add(30 * time.Minute)
		s.find(word, true)
	}
	c.at = c.at.Add(30 * time.Minute)
	if _, ok := s.find(word, true); ok {
		t.Error("the session outlives eight hours")
	}
}

func TestACodeIsForOneBrowserAndTwoMinutes(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	s := newSessions(c.now)
	ann := bearer(t, "ann")
	code, _, err := s.offer(ann, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.begin(" " + code[:5] + code[6:]); err != nil {
		t.Errorf("typed without its dash: %v", err)
	}
	if _, err := s.begin(code); err == nil {
		t.Error("it was used twice")
	}
	code, _, _ = s.offer(ann, "127.0.0.1")
	c.at = c.at.Add(2 * time.Minute)
	if _, err := s.begin(code); err == nil {
		t.Error("it is valid after two minutes")
	}
}

// A user who takes many codes or sessions loses the oldest of them, and keeps no other user out.
func TestOneUserTakesNoPlaceOfOthers(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	s := newSessions(c.now)
	ann, bob := bearer(t, "ann"), bearer(t, "bob")
	of := s.signIn(t, bob)
	var words []string
	for range mostOfOne + 1 {
		c.at = c.at.Add(time.Second)
		words = append(words, s.signIn(t, ann))
	}
	for n, word := range append(words, of) {
		if _, ok := s.find(word, false); ok != (n > 0) {
			t.Errorf("session %d is open: %v", n, ok)
		}
	}
	for range 3 * mostOfOne {
		if _, _, err := s.offer(ann, "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.codes) != mostOfOne {
		t.Errorf("%d codes of one user wait", len(s.codes))
	}
}
