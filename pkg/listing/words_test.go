package listing

import (
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestAnEnumIsSaidAsAWord(t *testing.T) {
	if got := Word(taskv1.State_STATE_SUCCEEDED); got != "succeeded" {
		t.Errorf("have %q", got)
	}
	if got := Word(taskv1.State_STATE_UNSPECIFIED); got != "" {
		t.Errorf("unspecified is %q, want nothing", got)
	}
	if got, err := ParseWord[imagev1.State]("Active"); err != nil || got != imagev1.State_STATE_ACTIVE {
		t.Errorf("have %v and %v", got, err)
	}
	if got, err := ParseWord[imagev1.State]("on"); err == nil {
		t.Errorf("have %v, want an error", got)
	}
}

func TestSizesSpansAndCountsAreFormattedInOneUnit(t *testing.T) {
	for got, want := range map[string]string{
		Size(1000):             "1000 B",
		Size(1536):             "1.5 KiB",
		Size(3 << 30):          "3.0 GiB",
		Span(90 * time.Second): "1m",
		Span(47 * time.Hour):   "47h",
		Span(72 * time.Hour):   "3d",
		Span(-time.Second):     "0s",
		Plural(1, "server"):    "1 server",
		Plural(2, "server"):    "2 servers",
		Pairs(map[string]string{"b": "2", "a": "1"}): "a=1,b=2",
	} {
		if got != want {
			t.Errorf("have %q, want %q", got, want)
		}
	}
}

func TestAWordIsQuotedOnlyWhereAShellRequiresIt(t *testing.T) {
	for word, want := range map[string]string{"rack=a": "rack=a", "a b": "'a b'", "it's": `'it'\''s'`, "": "''"} {
		if got := Quote(word); got != want {
			t.Errorf("have %s, want %s", got, want)
		}
	}
}
