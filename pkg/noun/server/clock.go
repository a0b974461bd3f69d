package server

import (
	"fmt"
	"strings"
	"time"
)

// ClockText returns how far a clock is ahead, such as 2h ahead; behind when ahead is negative.
func ClockText(ahead time.Duration) string {
	far := ahead.Abs()
	text := far.Round(time.Second).String()
	switch {
	case far >= 48*time.Hour:
		text = fmt.Sprintf("%dd", far/(24*time.Hour))
	case far >= time.Minute:
		text = strings.TrimSuffix(far.Round(time.Minute).String(), "0s")
		text = strings.Replace(text, "h0m", "h", 1)
	}
	if ahead < 0 {
		return text + " behind"
	}
	return text + " ahead"
}
