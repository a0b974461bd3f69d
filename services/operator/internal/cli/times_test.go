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
