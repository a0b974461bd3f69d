package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
)

func TestTheKindSurvivesWrapping(t *testing.T) {
	err := fmt.Errorf("outer: %w", fault.New(fault.Conflict, "inner: %w", io.EOF))
	if !fault.Is(err, fault.Conflict) || !errors.Is(err, io.EOF) {
		t.Errorf("%v: kind %v", err, fault.KindOf(err))
	}
	if fault.Is(nil, fault.Internal) {
		t.Error("no error has a kind")
	}
	if fault.KindOf(io.EOF) != fault.Internal {
		t.Error("an error without a kind is internal")
	}
}

func TestKindsSurviveTheWire(t *testing.T) {
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if got := fault.ParseKind(k.String()); got != k {
			t.Errorf("%v comes back as %v", k, got)
		}
	}
	if fault.ParseKind("nonsense") != fault.Internal {
		t.Error("an unknown kind is internal")
	}
}

func TestARefusalIsFoundUnderWrapping(t *testing.T) {
	r := &apiv1.Refusal{Code: "NO_MATCH", Component: "image-catalog", Message: "nothing", Try: "garrison image list"}
	err := fault.New(fault.NotFound, "resolve: %w", fault.Refuse(fault.NotFound, r))
	if fault.RefusalOf(err) != r {
		t.Error("the refusal is lost")
	}
	if got, want := fault.Line(r), "image-catalog: NO_MATCH: nothing. Try: garrison image list"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

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

func ExampleRefusef() {
	err := fmt.Errorf("install: %w",
		fault.Refusef(fault.NotFound, "UNKNOWN_AGENT", "no agent %q (2 searched)", "wbe").
			Near("web").Try("garrison agent list"))
	fmt.Println(err)
	fmt.Println(fault.KindOf(err), fault.RefusalOf(err).GetCode())
	// Output:
	// install: UNKNOWN_AGENT: no agent "wbe" (2 searched). Nearest: web. Try: garrison agent list
	// not-found UNKNOWN_AGENT
}
