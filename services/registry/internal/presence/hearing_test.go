package presence

import (
	"testing"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	every   = 5 * time.Second
	returns = 35 // seconds
)

// at returns a time so many seconds after the start of a test.
func at(seconds int) time.Time { return time.Unix(10_000+int64(seconds), 0) }

func TestOnlyTimeInWhichBeatsCouldArriveCountsAsSilence(t *testing.T) {
	looks := func(h *Hearing, from, to int) {
		for s := from; s <= to; s++ {
			h.Look(at(s))
		}
	}
	for name, c := range map[string]struct {
		play func(h *Hearing)
		want int // since when servers may reconnect and beat three times, in seconds
	}{
		"from the start":                       {func(h *Hearing) { looks(h, 1, 100) }, 0},
		"after an interruption":                {func(h *Hearing) { looks(h, 1, 50); h.Interrupted(at(50)) }, 50},
		"a process that stood still":           {func(h *Hearing) { looks(h, 1, 50); looks(h, 90, 99) }, 90},
		"a process that was slow for a moment": {func(h *Hearing) { looks(h, 1, 50); looks(h, 56, 99) }, 0},
		"a server that came back":              {func(h *Hearing) { h.Returned(at(100)) }, 100 - returns},
		"servers that come back for ever":      {func(h *Hearing) { h.Returned(at(4000)) }, 300 - 15 - returns},
	} {
		t.Run(name, func(t *testing.T) {
			h := NewHearing(at(0), every, every, time.Duration(returns)*time.Second)
			c.play(&h)
			if got := h.Grace(); !got.Equal(at(c.want + returns + 15)) {
				t.Errorf("the grace ends %v after the start, want %d s", got.Sub(at(0)), c.want+returns+15)
			}
		})
	}
}

func TestAServerIsLateOnceABeatIsMissing(t *testing.T) {
	online := func() *serverv1.Server {
		return &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE}
	}
	isOffline := func(s *serverv1.Server) { s.Presence = serverv1.Presence_PRESENCE_OFFLINE }
	isRevoked := func(s *serverv1.Server) { s.Standing = serverv1.Standing_STANDING_REVOKED }
	isDead := func(s *serverv1.Server) { s.Life = serverv1.Life_LIFE_DEAD }
	for name, c := range map[string]struct {
		change          func(*serverv1.Server)
		last, hear, now int
		want            int // since when, in seconds; 0 when it is not late
	}{
		"a beat just came":         {nil, 100, 0, 105, 0},
		"a beat is missing":        {nil, 100, 0, 108, 105},
		"it could not be received": {nil, 100, 200, 205, 0},
		"none came since it could": {nil, 100, 200, 208, 205},
		"it is offline":            {isOffline, 100, 0, 200, 0},
		"it is shut out":           {isRevoked, 100, 0, 200, 0},
		"it is dead":               {isDead, 100, 0, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := online()
			if c.change != nil {
				c.change(s)
			}
			want := time.Time{}
			if c.want > 0 {
				want = at(c.want)
			}
			if got := LateSince(s, Beat{At: at(c.last)}, at(c.hear), at(c.now), every, every); !got.Equal(want) {
				t.Errorf("late since %v, want %v", got, want)
			}
		})
	}
}

func TestALargeShareThatFallsSilentAtOnceIsHeldForABoundedTime(t *testing.T) {
	type count struct{ silent, of int }
	one := func(s, of int) count { return count{s, of} }
	for name, c := range map[string]struct {
		counts map[int]count // at a second, from then on
		until  int
		want   bool
	}{
		"few servers":                {map[int]count{0: one(10, 10)}, 0, false},
		"a small share":              {map[int]count{0: one(20, 100)}, 0, false},
		"a large share":              {map[int]count{0: one(21, 100)}, 0, true},
		"it is small again":          {map[int]count{0: one(60, 100), 50: one(5, 100)}, 50, false},
		"just before the limit":      {map[int]count{0: one(60, 100)}, 299, true},
		"at the limit":               {map[int]count{0: one(60, 100)}, 300, false},
		"and it stays ended":         {map[int]count{0: one(60, 100)}, 400, false},
		"until the share is small":   {map[int]count{0: one(60, 100), 350: one(5, 100), 360: one(50, 100)}, 400, true},
		"the limit counts from anew": {map[int]count{0: one(60, 100), 200: one(5, 100), 210: one(60, 100)}, 400, true},
	} {
		t.Run(name, func(t *testing.T) {
			var h Hold
			var now count
			for s := range c.until + 1 {
				if next, ok := c.counts[s]; ok {
					now = next
				}
				h = h.Next(now.silent, now.of, at(s), every)
			}
			if got := h.Holds(at(c.until)); got != c.want {
				t.Errorf("holds %v (%+v), want %v", got, h, c.want)
			}
		})
	}
}

func TestNoServerIsCalledOfflineWhileManyAreSilent(t *testing.T) {
	s := &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE}
	timing := Timing{Now: at(100), Heard: at(100), Interval: every, Held: true}
	if body := Decide(s, Beat{At: at(0)}, timing); body != nil {
		t.Errorf("while it is held: %T", body)
	}
	s.Standing = serverv1.Standing_STANDING_REVOKED
	if body := Decide(s, Beat{At: at(0)}, timing); body == nil {
		t.Error("a revoked server, whose silence is expected, stays online")
	}
}

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
