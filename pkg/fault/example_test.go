package fault_test

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

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
