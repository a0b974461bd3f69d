package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// TimeWords is the help of a flag for a time in the past.
const TimeWords = "`TIME`: a duration such as 10m, 2h, 1d or 1w, a day such as 2026-01-31, yesterday or today, or " +
	"RFC 3339"

// SinceReader returns a parser of times and of durations before now.
func SinceReader(now func() time.Time) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) { return parseTime(now(), text, -1) }
}

// PastReader is SinceReader without times that are still to come.
func PastReader(now func() time.Time) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) {
		at := now()
		t, err := parseTime(at, text, -1)
		if err == nil && t.After(at) {
			err = fmt.Errorf("%q is in the future", text)
		}
		return t, err
	}
}

// LookbackReader is SinceReader without days that are still to come. A time of a clock that is ahead may be meant.
func LookbackReader(now func() time.Time) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) {
		at := now()
		t, err := parseTime(at, text, -1)
		if err == nil && (text == "tomorrow" || t.After(at.AddDate(0, 0, 1))) {
			err = fmt.Errorf("%q is in the future", text)
		}
		return t, err
	}
}

// UntilReader returns a parser of times and of durations after now.
func UntilReader(now func() time.Time) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) { return parseTime(now(), text, 1) }
}

// parseTime parses a duration before or after now, the beginning of a day, or a time. Days begin at midnight where the
// command runs.
func parseTime(now time.Time, text string, sign time.Duration) (time.Time, error) {
	if d, err := parseSpan(text); err == nil && d > 0 {
		return now.Add(sign * d), nil
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	switch text {
	case "today":
		return midnight, nil
	case "yesterday":
		return midnight.AddDate(0, 0, -1), nil
	case "tomorrow":
		return midnight.AddDate(0, 0, 1), nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z or 2026-01-31 nor a duration such as "+
			"10m or 1d", text)
	}
	return t, nil
}

var longSpan = regexp.MustCompile(`^([0-9]{1,5})([dw])$`)

// parseSpan parses a duration, also in days and weeks.
func parseSpan(text string) (time.Duration, error) {
	parts := longSpan.FindStringSubmatch(text)
	if parts == nil {
		return time.ParseDuration(text)
	}
	n, err := strconv.Atoi(parts[1])
	day := 24 * time.Hour
	if parts[2] == "w" {
		day *= 7
	}
	return time.Duration(n) * day, err
}
