package output

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Age returns how long ago a time was, in one unit; in the wide view the time itself.
func Age(v View, t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	if v.Wide {
		return Stamp(t)
	}
	return Span(v.At.Sub(t.AsTime()))
}

// Span formats a duration in one unit, rounded down.
func Span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Until returns the time left before a deadline.
func Until(v View, t *timestamppb.Timestamp) string {
	if d := t.AsTime().Sub(v.At); d > 0 {
		return "within " + Span(d)
	}
	return "overdue"
}

// Stamp formats a time so that it sorts, and --since accepts it.
func Stamp(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}
