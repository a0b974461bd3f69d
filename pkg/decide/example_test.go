package decide_test

import (
	"context"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Two replicas record on the same key: the second one loses, decides again on what the first one
// recorded, and finds that nothing is left to do.
func Example() {
	w := &world{others: 1}
	decider := w.decider()
	sequence, err := decider.Do(context.Background(), func() ([]ledger.Draft, error) {
		if len(w.view) > 0 {
			fmt.Println("already recorded by", w.view[0])
			return nil, nil
		}
		return w.put(decider, "this one")()
	})
	fmt.Println(sequence, err)
	// Output:
	// already recorded by other
	// 0 <nil>
}
