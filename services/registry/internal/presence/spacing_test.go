package presence

import (
	"testing"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestBeatsAreBoundedAsTheFleetGrows(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		before  time.Duration
		servers int
		want    time.Duration
	}{
		{0, 0, every}, {0, 1, every}, {every, 2000, every}, {every, 2001, 10 * s}, {every, 10_000, 25 * s},
		{every, 10_001, 30 * s}, {every, 100_000, time.Minute}, {time.Minute, 24_001, time.Minute},
		{25 * s, 8001, 25 * s}, {25 * s, 7999, 25 * s}, {25 * s, 6000, 15 * s}, {10 * s, 2000, 10 * s},
		{10 * s, 1999, 10 * s}, {15 * s, 1, every},
	} {
		if got := Spacing(c.before, every, c.servers); got != c.want {
			t.Errorf("%d servers that beat every %v beat every %v next, want %v", c.servers, c.before, got, c.want)
		}
	}
	if got := Spacing(0, 2*time.Minute, 100_000); got != 2*time.Minute {
		t.Errorf("an interval of 2 min becomes %v", got)
	}
}

func TestAServerIsAskedOnceItBeatsAtAnotherInterval(t *testing.T) {
	const s = time.Second
	two := Sessions{{}, {}}
	for name, c := range map[string]struct {
		last    Beat
		spacing time.Duration
		want    time.Duration
	}{
		"as often as it shall":          {Beat{Every: 25 * s}, 25 * s, 0},
		"too often":                     {Beat{Every: every}, 25 * s, 25 * s},
		"too rarely":                    {Beat{Every: 25 * s}, every, every},
		"it does not say":               {Beat{}, 25 * s, 0},
		"by its settings more often":    {Beat{Every: s}, every, 0},
		"one of two machines":           {Beat{Every: 25 * s, Sessions: two}, 25 * s, every},
		"one of two, at the interval":   {Beat{Every: every, Sessions: two}, 25 * s, 0},
		"as often as a fleet that fell": {Beat{Every: 30 * s}, 25 * s, 25 * s},
	} {
		if got := c.last.NextSpacing(every, c.spacing); got != c.want {
			t.Errorf("%s: asked for %v, want %v", name, got, c.want)
		}
	}
	for said, want := range map[time.Duration]time.Duration{
		-s: 0, 0: 0, every: every, time.Minute: time.Minute, 400 * time.Hour: time.Minute,
	} {
		if got := Bounded(said, every); got != want {
			t.Errorf("a beat that names %v counts as one that names %v, want %v", said, got, want)
		}
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
			since := LateSince(s, c.last, at(c.heard), at(c.now), every, 25*time.Second)
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
