package cli

import (
	"testing"
	"time"
)

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
