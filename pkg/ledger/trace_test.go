package ledger_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func TestOnlyATraceparentIsATrace(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if got := ledger.CheckTrace(good); got != good {
		t.Errorf("%q, want it as it is", got)
	}
	for _, bad := range []string{
		"", "x", strings.ToUpper(good), good + "-x", "01" + good[2:], good + "\n", strings.Repeat("a", 2000),
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		strings.Replace(good, "4b", "\x1b[", 1),
	} {
		if got := ledger.CheckTrace(bad); got != "" {
			t.Errorf("%.80q is taken as %q", bad, got)
		}
	}
}
