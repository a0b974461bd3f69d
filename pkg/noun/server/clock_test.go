package server

import (
	"testing"
	"time"
)

func TestAClockThatDiffersIsDescribedInFewWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		31 * time.Second:             "31s ahead",
		-59 * time.Second:            "59s behind",
		90 * time.Second:             "2m ahead",
		10 * time.Minute:             "10m ahead",
		-2 * time.Hour:               "2h behind",
		10*time.Hour + 5*time.Minute: "10h5m ahead",
		20*time.Hour - time.Second:   "20h ahead",
		-48 * time.Hour:              "2d behind",
		36500 * 24 * time.Hour:       "36500d ahead",
	} {
		if have := ClockText(d); have != want {
			t.Errorf("%v: %q, want %q", d, have, want)
		}
	}
}
