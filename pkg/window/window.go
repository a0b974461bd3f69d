// Package window decides when the servers of an environment may be changed: within its windows and outside its holds.
// It is pure: the time comes in as an argument, so that a decision that rested on it is replayed.
//
// Guarantees:
//
//  1. An environment without windows is open at any time, and a hold closes it whatever its windows are.
//  2. Fetching ahead follows its own windows, and no hold: without such windows it never happens.
//  3. Until is the next time at which the environment may open; the time of day is that of the window's time zone, also
//     where it changes between summer and winter.
package window

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the time zones, where the machine has none
	"unicode"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// The bounds of an environment's windows and holds.
const (
	MaxWindows = 32
	MaxFreezes = 64
	maxMinutes = 7 * 24 * 60
	maxReason  = 500
	maxBusy    = 7 * 24 * time.Hour
)

// State is whether servers may be changed at a time.
type State struct {
	Open  bool
	Until time.Time // when it may open; zero while it is open, or when it never opens
	Why   string    // why it is closed, such as "outside its windows"
}

// Word returns a state in a word or two: open, held, or outside windows.
func (s State) Word() string {
	switch {
	case s.Open:
		return "open"
	case strings.HasSuffix(s.Why, outside):
		return "outside windows"
	}
	return "held"
}

// outside ends the reason of an environment that no hold closes.
const outside = " is outside its windows"

// At returns whether the servers of an environment may be changed at a time.
func At(e *environmentv1.Environment, now time.Time) State {
	s := State{Open: true}
	for at := now; ; at = s.Until { // what ends may be followed by another hold, or by no window
		why, until := closed(e, at)
		if why == "" {
			return s
		}
		if s.Open {
			s = State{Why: why}
		}
		if s.Until = until; until.IsZero() || until.Sub(now) > 400*24*time.Hour {
			return s
		}
	}
}

// closed returns why an environment is closed at a time, and until when at least; "" when it is open.
func closed(e *environmentv1.Environment, at time.Time) (string, time.Time) {
	for _, f := range e.GetFreezes() {
		if from := f.GetFrom(); !at.Before(f.GetUntil().AsTime()) || from != nil && at.Before(from.AsTime()) {
			continue
		}
		return strings.TrimSuffix(fmt.Sprintf("environment %s is held: %s", e.Name, f.Reason), ": "), f.Until.AsTime()
	}
	open, next := anyOf(e.GetWindows(), at)
	if open || len(e.GetWindows()) == 0 {
		return "", time.Time{}
	}
	return "environment " + e.Name + outside, next
}

// anyOf reports whether one of several windows is open at a time, and when the first of them begins next.
func anyOf(windows []*environmentv1.Window, at time.Time) (open bool, next time.Time) {
	for _, w := range windows {
		open, begins := within(w, at)
		if open {
			return true, time.Time{}
		}
		if next.IsZero() || begins.Before(next) {
			next = begins
		}
	}
	return false, next
}

// Ahead reports whether the servers of an environment may fetch at a time what rollouts bring them later, and when they
// may next; zero when never. A hold does not matter: no agent changes.
func Ahead(e *environmentv1.Environment, now time.Time) (open bool, next time.Time) {
	if e.GetFetchAlways() {
		return true, time.Time{}
	}
	return anyOf(e.GetFetchWindows(), now)
}

// FetchesAhead reports whether the servers of an environment ever fetch ahead what rollouts bring them.
func FetchesAhead(e *environmentv1.Environment) bool {
	return e.GetFetchAlways() || len(e.GetFetchWindows()) > 0
}

// within reports whether a window is open at a time, and when it begins next.
func within(w *environmentv1.Window, at time.Time) (open bool, next time.Time) {
	zone, err := zoneOf(w.GetZone())
	if err != nil {
		return false, time.Time{}
	}
	there := at.In(zone)
	for day := -8; day <= 16; day++ { // a weekly window may not exist once, where the clocks are set forward
		noon := time.Date(there.Year(), there.Month(), there.Day()+day, 12, 0, 0, 0, zone)
		begin, end := clock(noon, w.FromMinute), clock(noon, w.FromMinute+w.Minutes)
		if !on(w, noon.Weekday()) || !begin.Before(end) {
			continue
		}
		if begin.After(at) {
			return false, begin
		}
		if at.Before(end) {
			return true, time.Time{}
		}
	}
	return false, time.Time{}
}

// clock returns when a clock shows a minute after the midnight before a noon, also where it is set forward or back in
// between. For a time that it leaves out it is the one that it shows instead.
func clock(noon time.Time, minute uint32) time.Time {
	at := noon.Add((time.Duration(minute) - 12*60) * time.Minute)
	_, there := noon.Zone()
	_, here := at.Zone()
	moved := at.Add(time.Duration(there-here) * time.Second)
	if _, offset := moved.Zone(); offset != here && moved.Before(at) {
		return at
	}
	return moved
}

// zones are the time zones that were read from files, by name.
var zones sync.Map

func zoneOf(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// on reports whether a window begins on a day of the week.
func on(w *environmentv1.Window, day time.Weekday) bool {
	if len(w.Days) == 0 {
		return true
	}
	for _, d := range w.Days {
		if time.Weekday(d%7) == day {
			return true
		}
	}
	return false
}

// CheckBusyLimit returns why the limit of an environment for critical sections is refused, or nil.
func CheckBusyLimit(e *environmentv1.Environment) error {
	if l := e.GetBusyLimit(); l != nil && (l.AsDuration() < time.Second || l.AsDuration() > maxBusy) {
		return fmt.Errorf("a limit of %s for critical sections; want 1s to %.0fh", l.AsDuration(),
			maxBusy.Hours())
	}
	return nil
}

// Check returns why the windows and holds of an environment, or its limit for critical sections, are refused, or nil.
func Check(e *environmentv1.Environment) error {
	if err := CheckBusyLimit(e); err != nil {
		return err
	}
	if len(e.GetWindows()) > MaxWindows || len(e.GetFreezes()) > MaxFreezes {
		return fmt.Errorf("%d windows and %d holds; %d and %d are the most", len(e.Windows), len(e.Freezes),
			MaxWindows, MaxFreezes)
	}
	if len(e.GetFetchWindows()) > MaxWindows || e.GetFetchAlways() && len(e.GetFetchWindows()) > 0 {
		return fmt.Errorf("%d windows for fetching ahead; %d are the most, and none where it is at any time",
			len(e.FetchWindows), MaxWindows)
	}
	for _, w := range slices.Concat(e.GetWindows(), e.GetFetchWindows()) {
		if err := checkWindow(w); err != nil {
			return err
		}
	}
	for _, f := range e.GetFreezes() {
		if err := checkFreeze(f); err != nil {
			return err
		}
	}
	return nil
}

func checkWindow(w *environmentv1.Window) error {
	for _, d := range w.Days {
		if d < 1 || d > 7 {
			return fmt.Errorf("a window on day %d; 1 for Monday to 7 for Sunday is valid", d)
		}
	}
	if w.FromMinute >= 24*60 || w.Minutes < 1 || w.Minutes > maxMinutes {
		return fmt.Errorf("a window from minute %d for %d minutes; 0 to 1439 and 1 to %d are valid", w.FromMinute,
			w.Minutes, maxMinutes)
	}
	_, err := time.LoadLocation(w.Zone)
	// One name for each zone: files are found under others too.
	if err != nil || w.Zone == "Local" || w.Zone != "" && path.Clean(w.Zone) != w.Zone {
		return fmt.Errorf("%q is not a time zone, such as Europe/Berlin", w.Zone)
	}
	return nil
}

func checkFreeze(f *environmentv1.Freeze) error {
	switch {
	case f.GetUntil() == nil || !f.Until.IsValid() || f.From != nil && !f.From.IsValid():
		return fmt.Errorf("a hold needs the time until which it lasts")
	case f.From != nil && !f.From.AsTime().Before(f.Until.AsTime()):
		return fmt.Errorf("a hold ends at %s, before it begins", f.Until.AsTime().Format(time.RFC3339))
	case len(f.Reason) > maxReason:
		return fmt.Errorf("the reason of a hold has %d bytes; %d are the most", len(f.Reason), maxReason)
	case strings.ContainsFunc(f.Reason, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("the reason of a hold is not printable, or not one line")
	}
	return nil
}
