package presence

import (
	"testing"
	"time"
)

// A server of the bus that comes and goes forever does not keep servers of the fleet online forever.
func TestSilenceIsPutDownToTheBusForABoundedTime(t *testing.T) {
	for name, c := range map[string]struct {
		each, times int // seconds from one time to the next, and how often
		want        int // how often silence is put down to it
	}{
		"once":                           {1, 1, 1},
		"again and again":                {10, 100, 30},
		"each time after servers return": {returns + 15, 100, 100},
	} {
		t.Run(name, func(t *testing.T) {
			var b Blame
			n := 0
			for i := range c.times {
				var counts bool
				if b, counts = b.Next(at(i*c.each), every, returns*time.Second); counts {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d times, want %d", n, c.want)
			}
		})
	}
}

func TestEachServerOfTheBusThatGoesAwayCountsOnce(t *testing.T) {
	type quorum struct {
		leader string
		silent []string
	}
	answer := func(leader string, silent ...string) quorum { return quorum{leader, silent} }
	var s Servers
	if s.Several() || s.Known() {
		t.Error("something is known before the first answer")
	}
	for n, step := range []struct {
		answer quorum
		lost   bool
	}{
		{answer("a", "c"), false}, // it was away before
		{answer("a", "c"), false},
		{answer("a"), false},
		{answer("a", "c"), true},
		{answer("a", "c"), false},
		{answer("a", "b", "c"), true},
		{answer("a", "b"), false},
		{answer("b", "a"), true},
		{answer("b", "a"), false},
		{answer("b"), false},
		{answer("c"), true}, // it may have been away in between
	} {
		var lost bool
		if s, lost = s.Next(step.answer.leader, 2, step.answer.silent); lost != step.lost {
			t.Errorf("answer %d, %+v: beats may be lost: %v, want %v", n, step.answer, lost, step.lost)
		}
	}
	if !s.Several() {
		t.Error("the bus has several servers")
	}
	if s, _ = (Servers{}).Next("", 0, nil); s.Several() || !s.Known() {
		t.Error("the bus has one server")
	}
}
