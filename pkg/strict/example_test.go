package strict_test

import (
	"fmt"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/strict"
)

func Example() {
	entry := &desiredv1.Entry{Agent: "beacon", Verb: 9} // a newer dispatcher wrote it
	fmt.Println(strict.Check(entry))
	// Output: verb: unknown value 9 of garrison.task.v1.Verb
}
