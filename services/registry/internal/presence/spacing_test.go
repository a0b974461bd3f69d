package presence

import (
	"testing"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestBeatsAreBoundedAsTheFleetGrows(t *testing.T) {
	const s = time.Second
	for servers, want := range map[int]time.Duration{
		0: every, 1: every, 2000: every, 2001: 10 * s, 10_000: 25 * s, 10_001: 30 * s, 24_000: time.Minute,
		100_000: time.Minute,
	} {
		if got := Spacing(every, servers); got != want {
			t.Errorf("%d servers beat every %v, want %v", servers, got, want)
		}
	}
	if got := Spacing(2*time.Minute, 100_000); got != 2*time.Minute {
		t.Errorf("an interval of 2 min becomes %v", got)
	}
}

func TestAServerIsAskedOnceItBeatsAtAnotherInterval(t *testing.T) {
	const s = time.Second
	two := Sessions{{returns: 1, returned: at(100), At: at(100)}, {}}
	now := Beat{At: at(100)}
	asked := func(every time.Duration, ago int) Beat {
		return Beat{At: at(100), AskedFor: every, Asked: at(100 - ago)}
	}
	for name, c := range map[string]struct {
		last    Beat
		said    time.Duration
		spacing time.Duration
		want    time.Duration
	}{
		"as often as it shall":              {now, 25 * s, 25 * s, 0},
		"too often":                         {now, every, 25 * s, 25 * s},
		"somewhat too rarely":               {now, 35 * s, 25 * s, 0},
		"too rarely":                        {now, 40 * s, 25 * s, 25 * s},
		"too rarely in a small fleet":       {now, 10 * s, every, every},
		"by its settings more often":        {now, s, every, 0},
		"one of two machines":               {Beat{At: at(100), Sessions: two}, 25 * s, 25 * s, every},
		"one of two, at the interval":       {Beat{At: at(100), Sessions: two}, every, 25 * s, 0},
		"asked a moment ago":                {asked(25*s, 5), every, 25 * s, 0},
		"asked a while ago":                 {asked(25*s, 60), every, 25 * s, 25 * s},
		"asked for something else":          {asked(20*s, 5), every, 25 * s, 25 * s},
		"its settings forbid what is asked": {asked(every, 5), 10 * s, every, 0},
	} {
		if got := c.last.Ask(c.said, every, c.spacing); got != c.want {
			t.Errorf("%s: asked for %v, want %v", name, got, c.want)
		}
	}
}

func TestAServerCannotPutOffItsEndByWhatItSays(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		asked, said, spacing, want time.Duration
	}{
		{0, -s, every, 0}, {0, 0, every, 0}, {0, every, every, every}, {0, time.Minute, every, every},
		{25 * s, time.Minute, every, 25 * s}, {0, time.Hour, 25 * s, 35 * s}, {0, 25 * s, 25 * s, 25 * s},
	} {
		if got := (Beat{AskedFor: c.asked}).Says(c.said, every, c.spacing); got != c.want {
			t.Errorf("%+v: it counts as %v", c, got)
		}
	}
	// What it was asked counts, also when the beat that says so was lost.
	b := Beat{At: at(100), Every: every, AskedFor: 25 * s}
	if b.Fresh(at(175), every) || !b.Fresh(at(174), every) {
		t.Error("a server that was asked to beat every 25 s is silent after 75 s")
	}
}

// A server that beats every 25 s is late after 38 s and offline after 75 s; one whose connection ended is late at once,
// and offline after 15 s, as any other.
func TestSilenceCountsByTheIntervalOfTheServerAndFromTheEndOfItsConnection(t *testing.T) {
	rare := Beat{At: at(100), Every: 25 * time.Second, BootID: "boot"}
	gone := rare
	gone.Gone = at(110)
	for name, c := range map[string]struct {
		last          Beat
		heard         int // since when beats are received
		now           int
		late, offline bool
	}{
		"rare, in time":               {rare, 0, 137, false, false},
		"rare, one is missing":        {rare, 0, 138, true, false},
		"rare, the third is not due":  {rare, 0, 174, true, false},
		"rare, three are missing":     {rare, 0, 175, true, true},
		"a moment after it was gone":  {gone, 0, 110, false, false},
		"gone":                        {gone, 0, 111, true, false},
		"gone for less than 15 s":     {gone, 0, 124, true, false},
		"gone for 15 s":               {gone, 0, 125, true, true},
		"gone before it can be heard": {gone, 120, 124, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &serverv1.Server{
				Life: serverv1.Life_LIFE_ALIVE, Presence: serverv1.Presence_PRESENCE_ONLINE, BootId: "boot",
			}
			since := LateSince(s, c.last, at(c.heard), at(c.now), every, 15*time.Second)
			if late := !since.IsZero(); late != c.late {
				t.Errorf("late since %v, want %v", since, c.late)
			}
			body := Decide(s, c.last, Timing{
				Now: at(c.now), Heard: at(c.now), Interval: every, Spacing: 25 * time.Second, Grace: at(c.heard),
			})
			if offline := body != nil; offline != c.offline {
				t.Errorf("%T, want offline: %v", body, c.offline)
			}
			s.Presence = serverv1.Presence_PRESENCE_OFFLINE
			body = Decide(s, c.last, Timing{Now: at(c.now), Heard: at(c.now), Interval: every, Grace: at(c.heard)})
			if online := body != nil; online == c.offline {
				t.Errorf("it was called offline: %v; then it is online: %v", c.offline, online)
			}
		})
	}
	if Silent(at(110), at(112), every) || !Silent(at(110), at(113), every) || Silent(time.Time{}, at(113), every) {
		t.Error("a connection that ended counts as silence after half an interval")
	}
}
