package window

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

func moment(t *testing.T, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWhenAnEnvironmentIsOpen(t *testing.T) {
	nights := &environmentv1.Window{ // Monday to Friday, 22:00 to 04:00
		Days: []uint32{1, 2, 3, 4, 5}, FromMinute: 22 * 60, Minutes: 6 * 60, Zone: "Europe/Berlin",
	}
	e := &environmentv1.Environment{Name: "prod", Windows: []*environmentv1.Window{nights}}
	frozen := &environmentv1.Environment{
		Name: "prod", Windows: e.Windows, Freezes: []*environmentv1.Freeze{{
			From:  timestamppb.New(moment(t, "2026-12-20T00:00:00Z")),
			Until: timestamppb.New(moment(t, "2027-01-04T00:00:00Z")), Reason: "year end",
		}},
	}
	on := func(from, minutes uint32, zone string) *environmentv1.Environment {
		return &environmentv1.Environment{Windows: []*environmentv1.Window{{
			FromMinute: from, Minutes: minutes, Zone: zone,
		}}}
	}
	night, always := on(22*60, 6*60, "Europe/Berlin"), on(0, 24*60, "Europe/Berlin")
	gap := on(2*60+10, 20, "America/New_York")
	for _, c := range []struct {
		name  string
		e     *environmentv1.Environment
		at    string
		until string // empty when it is open
	}{
		{"no windows", &environmentv1.Environment{}, "2026-11-23T12:00:00Z", ""},
		{"on Monday at noon", e, "2026-11-23T11:00:00Z", "2026-11-23T21:00:00Z"},
		{"on Monday at 22:00", e, "2026-11-23T21:00:00Z", ""},
		{"on Tuesday at 03:59", e, "2026-11-24T02:59:59Z", ""},
		{"on Tuesday at 04:00", e, "2026-11-24T03:00:00Z", "2026-11-24T21:00:00Z"},
		{"on Saturday at 03:00, since Friday", e, "2026-11-28T02:00:00Z", ""},
		{"on Saturday at 23:00", e, "2026-11-28T22:00:00Z", "2026-11-30T21:00:00Z"},
		{"in summer an hour earlier", e, "2026-07-06T20:30:00Z", ""},
		{"in the night to summer time until 04:00", night, "2027-03-28T01:59:59Z", ""},
		{"in the night to summer time at 04:00", night, "2027-03-28T02:00:00Z", "2027-03-28T20:00:00Z"},
		{"in the night to winter time until 04:00", night, "2026-10-25T02:59:59Z", ""},
		{"in the night to winter time at 04:00", night, "2026-10-25T03:00:00Z", "2026-10-25T21:00:00Z"},
		{"all day, on the day of 25 hours", always, "2026-10-25T22:30:00Z", ""},
		{"before a time that the clock leaves out", gap, "2027-03-14T06:59:00Z", "2027-03-14T07:10:00Z"},
		{"frozen, until the first window after it", frozen, "2026-12-21T22:00:00Z", "2027-01-04T21:00:00Z"},
		{"before the freeze", frozen, "2026-12-18T22:00:00Z", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := At(c.e, moment(t, c.at))
			if s.Open != (c.until == "") || !s.Open && !s.Until.Equal(moment(t, c.until)) {
				t.Errorf("%+v, want closed until %q", s, c.until)
			}
		})
	}
}

// An environment that is closed is open at the time that is named, and at no full minute before it.
func TestItIsClosedExactlyUntilTheTimeThatIsNamed(t *testing.T) {
	zone := rapid.SampledFrom([]string{"", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Africa/Cairo"})
	rapid.Check(t, func(t *rapid.T) {
		e := &environmentv1.Environment{}
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			e.Windows = append(e.Windows, &environmentv1.Window{
				Days:       []uint32{rapid.Uint32Range(1, 7).Draw(t, "day")},
				FromMinute: rapid.Uint32Range(0, 1439).Draw(t, "from"),
				Minutes:    rapid.Uint32Range(1, 3000).Draw(t, "minutes"),
				Zone:       zone.Draw(t, "zone"),
			})
		}
		at := time.Unix(rapid.Int64Range(1.7e9, 1.8e9).Draw(t, "at"), 0).Truncate(time.Minute)
		s := At(e, at)
		if s.Open {
			return
		}
		if !At(e, s.Until).Open {
			t.Fatalf("closed at %s until %s, and closed then", at, s.Until)
		}
		for m := at; m.Before(s.Until); m = m.Add(7 * time.Minute) {
			if At(e, m).Open {
				t.Fatalf("closed at %s until %s, and open at %s", at, s.Until, m)
			}
		}
	})
}

func TestWindowsAndFreezesThatCannotBeAreRefused(t *testing.T) {
	now := timestamppb.New(time.Unix(1000, 0))
	for name, e := range map[string]*environmentv1.Environment{
		"a day":         {Windows: []*environmentv1.Window{{Days: []uint32{8}, Minutes: 1}}},
		"a length":      {Windows: []*environmentv1.Window{{}}},
		"a begin":       {Windows: []*environmentv1.Window{{FromMinute: 1440, Minutes: 1}}},
		"a zone":        {Windows: []*environmentv1.Window{{Minutes: 1, Zone: "Europe/Atlantis"}}},
		"another name":  {Windows: []*environmentv1.Window{{Minutes: 1, Zone: "Europe/./Berlin"}}},
		"a reason":      {Freezes: []*environmentv1.Freeze{{Until: now, Reason: "year\x1b[2J\nend"}}},
		"an end":        {Freezes: []*environmentv1.Freeze{{}}},
		"a begin after": {Freezes: []*environmentv1.Freeze{{From: now, Until: now}}},
		"too many":      {Windows: make([]*environmentv1.Window, MaxWindows+1)},
	} {
		if Check(e) == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}
