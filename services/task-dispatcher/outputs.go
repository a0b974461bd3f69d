package dispatcher

import (
	"context"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// The output of agents may hold secrets, and everyone who reads sees the facts of tasks. So the output in a report is
// sealed before it is recorded, and opened for those who may read the output of agents.

// mostOutputs is how many outputs one request opens.
const mostOutputs = 20

// outputOf is the name under which the output of a task is sealed.
func outputOf(task string) string { return "output of task " + task }

// sealOutput seals the output of an agent that a fact about a task holds. Without a key it is left out.
func sealOutput(key *secret.Key, task string, fact proto.Message) {
	end, ok := fact.(interface{ GetOutcome() *taskv1.Outcome })
	if !ok || end.GetOutcome().GetLogTail() == "" {
		return
	}
	o := end.GetOutcome()
	if key == nil {
		o.LogTail = ""
		return
	}
	o.LogTail = key.Seal(outputOf(task), o.LogTail)
}

// openOutputs opens outputs. Each opens under the name of its own task alone; one that does not open is empty.
func (a *api) openOutputs(
	_ context.Context, _ bus.Caller, q *dispatcherv1.OpenOutputsRequest,
) (*dispatcherv1.OpenOutputsResponse, error) {
	if n := len(q.Sealed); n > mostOutputs {
		return nil, fault.Refusef(fault.Invalid, code.Malformed, "name %d outputs at most, not %d", mostOutputs, n)
	}
	resp := &dispatcherv1.OpenOutputsResponse{}
	for _, s := range q.Sealed {
		text := ""
		if a.cfg.Secrets != nil {
			text, _ = a.cfg.Secrets.Open(outputOf(s.TaskId), s.Sealed) // empty when it was sealed with another key
		}
		resp.Outputs = append(resp.Outputs, text)
	}
	return resp, nil
}
