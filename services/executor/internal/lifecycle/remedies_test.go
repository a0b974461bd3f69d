package lifecycle

import (
	"strings"
	"testing"
)

func TestTheAdviceOnAServerLeadsElsewhereThanToItsStatus(t *testing.T) {
	for why := range reasons {
		try := Remedy(why, "01a1")
		if try == "" || strings.Contains(try, "executor status") || strings.Contains(try, "context list") ||
			strings.Contains(try, "SERVER") {
			t.Errorf("%s: try %q", why, try)
		}
	}
	if try := Remedy("", "01a1"); try != "" {
		t.Errorf("without a code: %q", try)
	}
}
