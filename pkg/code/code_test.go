package code_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
)

func ExampleLookup() {
	e, ok := code.Lookup("NO_MATCH")
	fmt.Println(ok, e.By)
	fmt.Println(e.Meaning)
	fmt.Println("Try:", e.Remedy)
	old, _ := code.Lookup("NO_CHANNEL") // merged into another
	fmt.Println(old.Code)
	// Output:
	// true [registry image-catalog]
	// No image matches the agent, the version or channel, and the platform of every target.
	// Try: garrison image list AGENT
	// UNKNOWN_CHANNEL
}

func TestAllCodesAreSorted(t *testing.T) {
	byCode := func(a, b code.Entry) int { return strings.Compare(a.Code, b.Code) }
	if all := code.All(); len(all) == 0 || !slices.IsSortedFunc(all, byCode) {
		t.Errorf("%d codes, sorted: %t", len(all), slices.IsSortedFunc(all, byCode))
	}
}

// Of two next steps, a person has to choose before they know how the two differ.
func TestARemedyIsOneNextStep(t *testing.T) {
	for _, e := range code.All() {
		if strings.Contains(e.Remedy, ", or ") {
			t.Errorf("%s leaves a choice: %s", e.Code, e.Remedy)
		}
	}
}
