package cli

import (
	"testing"
	"time"
)

func TestTimesAreDurationsDaysOrInstants(t *testing.T) {
	zone := time.FixedZone("here", 2*60*60)
	now := time.Date(2026, 1, 31, 12, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"10m":                  now.Add(-10 * time.Minute),
		"1d":                   now.AddDate(0, 0, -1),
		"2w":                   now.AddDate(0, 0, -14),
		"today":                time.Date(2026, 1, 31, 0, 0, 0, 0, zone),
		"yesterday":            time.Date(2026, 1, 30, 0, 0, 0, 0, zone),
		"2026-01-20":           time.Date(2026, 1, 20, 0, 0, 0, 0, zone),
		"2026-01-31T09:00:00Z": time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC),
	} {
		have, err := parseTime(now, text, -1)
		if err != nil || !have.Equal(want) {
			t.Errorf("%s: have %v, %v; want %v", text, have, err, want)
		}
	}
	if have, err := parseTime(now, "3d", 1); err != nil || !have.Equal(now.AddDate(0, 0, 3)) {
		t.Errorf("until 3d: have %v, %v", have, err)
	}
	for _, text := range []string{"", "-1h", "0d", "soon", "2026-13-01", "999999d"} {
		if have, err := parseTime(now, text, -1); err == nil {
			t.Errorf("%q is %v, want an error", text, have)
		}
	}
}

func TestARolloutStartsAtATimeOfDayOrADurationAhead(t *testing.T) {
	now := time.Date(2026, 3, 28, 21, 30, 15, 500, time.UTC) // the night in which summer time begins in Berlin
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC) }
	for text, want := range map[string]time.Time{
		"22:00":                          at(28, 22, 0),
		"21:30":                          at(29, 21, 30),
		"23:00 Europe/Berlin":            at(28, 22, 0),
		"22:00 Europe/Berlin":            at(29, 20, 0),
		"2026-03-30 06:15":               at(30, 6, 15),
		"2026-03-30 06:15 Europe/Berlin": at(30, 4, 15),
		"+2h":                            time.Date(2026, 3, 28, 23, 30, 15, 0, time.UTC),
		"1d":                             time.Date(2026, 3, 29, 21, 30, 15, 0, time.UTC),
		"2026-03-28T23:00:00+01:00":      at(28, 22, 0),
		"now":                            {},
	} {
		have, err := StartReader(func() time.Time { return now })(text)
		if err != nil || !have.Equal(want) {
			t.Errorf("%q: have %v, %v; want %v", text, have, err, want)
		}
	}
	for _, text := range []string{"", "25:00", "22:00 Berlin", "tonight", "-2h", "2026-13-01 10:00", "a b c"} {
		if have, err := StartReader(func() time.Time { return now })(text); err == nil {
			t.Errorf("%q is %v, want an error", text, have)
		}
	}
}

func TestSinceIsATimeOrHowLongAgo(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "2026-01-31T11:00:00Z": now.Add(-time.Hour),
	} {
		if got, err := parseTime(now, text, -1); err != nil || !got.Equal(want) {
			t.Errorf("%s: have %v and %v, want %v", text, got, err, want)
		}
	}
}
