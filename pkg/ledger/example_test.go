package ledger_test

import (
	"fmt"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A task is assigned only if nothing was recorded about it since sequence 41. Of two
// dispatchers that draft this, one gets a conflict.
func ExampleOnKey() {
	fact := ledger.Fact{
		ID: "01890a5d-ac96-774b-bcce-b302099a8057", Noun: ledger.Task, Key: "t1", Body: &taskv1.Assigned{},
		At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Actor: "task-dispatcher", Source: "task-dispatcher",
	}
	draft := ledger.OnKey(fact, 41)
	fmt.Println(draft.Subject())
	fmt.Println(draft.Guard.Subject, draft.Guard.Sequence)

	header, _, err := ledger.Encode(draft.Fact)
	fmt.Println(header["ce-type"], header["ce-subject"], err)
	// Output:
	// garrison.ledger.task.t1.assigned
	// garrison.ledger.task.t1.* 41
	// [garrison.task.v1.Assigned] [task/t1] <nil>
}
