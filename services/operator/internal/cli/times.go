package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the time zones, where the machine has none
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

// StartReader returns a parser of when something begins: "22:00", the next time of day, or "2026-12-01 22:00", with an
// IANA time zone behind or in UTC as the windows of environments are; "+2h" or "2h" from now; RFC 3339; or "now", which
// is the zero time.
func StartReader(now func() time.Time) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) {
		at := now()
		if text == "now" {
			return time.Time{}, nil
		}
		if d, err := parseSpan(strings.TrimPrefix(text, "+")); err == nil && d > 0 {
			return at.Add(d).Truncate(time.Second), nil
		}
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, nil
		}
		return parseClock(at, text)
	}
}

// parseClock parses a time of day, on a day or the next one that comes, in a time zone or UTC.
func parseClock(now time.Time, text string) (time.Time, error) {
	bad := fmt.Errorf("%q is neither a time such as 22:00, \"22:00 Europe/Berlin\", \"2026-12-01 22:00\" or "+
		"2026-12-01T22:00:00Z nor a duration such as +2h", text)
	words, zone := strings.Fields(text), time.UTC
	if len(words) > 1 && !strings.Contains(words[len(words)-1], ":") {
		var err error
		if zone, err = time.LoadLocation(words[len(words)-1]); err != nil {
			return time.Time{}, fmt.Errorf("%q: no time zone %q; try an IANA name such as Europe/Berlin", text,
				words[len(words)-1])
		}
		words = words[:len(words)-1]
	}
	switch len(words) {
	case 1:
		clock, err := time.Parse("15:04", words[0])
		if err != nil {
			return time.Time{}, bad
		}
		here := now.In(zone)
		t := time.Date(here.Year(), here.Month(), here.Day(), clock.Hour(), clock.Minute(), 0, 0, zone)
		if !t.After(now) {
			t = time.Date(here.Year(), here.Month(), here.Day()+1, clock.Hour(), clock.Minute(), 0, 0, zone)
		}
		return t, nil
	case 2:
		t, err := time.ParseInLocation("2006-01-02 15:04", words[0]+" "+words[1], zone)
		if err != nil {
			return time.Time{}, bad
		}
		return t, nil
	}
	return time.Time{}, bad
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
	unit := day
	if parts[2] == "w" {
		unit *= 7
	}
	return time.Duration(n) * unit, err
}
