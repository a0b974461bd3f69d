package display

import (
	"testing"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
)

func TestAnOutcomeCountsWhatSucceededAndWhatDidNot(t *testing.T) {
	for want, c := range map[string]*dispatcherv1.IntentCounts{
		"":               {},
		"2 of 3 ok":      {Succeeded: 2, Running: 1},
		"1 ok, 2 failed": {Succeeded: 1, Undone: 1, Expired: 1},
	} {
		if have := OutcomeText(c); have != want {
			t.Errorf("%v: %q, want %q", c, have, want)
		}
	}
}
