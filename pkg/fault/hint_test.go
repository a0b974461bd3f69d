package fault_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestOnlyWhatFollowsTryIsQuotedForAShell(t *testing.T) {
	got := fault.Messagef("no %q in %s%%. Try: garrison agent create %[1]s, or %[3]s", "x$(y)", "a b",
		fault.Hint("-m 'a b'"))
	want := `no "x$(y)" in a b%. Try: garrison agent create 'x$(y)', or -m 'a b'`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := fault.Messagef("no %s", "x$(y)"), "no x$(y)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
