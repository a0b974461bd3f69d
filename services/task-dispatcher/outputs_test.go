package dispatcher

import (
	"testing"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/secret"
)

// opened returns the output of a task, opened under the name of one.
func (w *world) opened(under string, t *taskv1.Task) string {
	w.t.Helper()
	one := &dispatcherv1.SealedOutput{TaskId: under, Sealed: t.GetOutcome().GetLogTail()}
	q := &dispatcherv1.OpenOutputsRequest{Sealed: []*dispatcherv1.SealedOutput{one}}
	r, err := call[*dispatcherv1.OpenOutputsResponse](w, "OpenOutputs", q)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.GetOutputs()[0]
}

func TestTheOutputOfAFailedTaskIsSealedAndOpensUnderItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"with a key": true, "without a key": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var key *secret.Key
			if sealed {
				key, _ = secret.ParseKey(secret.NewKeyText())
			}
			d, _ := w.start(Config{Secrets: key})
			s := serverID(1)
			w.enrol(s)
			w.want(s, "shipper", 1, w.image("shipper", "1.0.0"))
			task := w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_ASSIGNED)
			w.report(s, task.Id, taskv1.State_STATE_UNDONE, &taskv1.Outcome{Reason: "no", LogTail: "password=hunter2"})
			task = w.awaitTask(d, s, "shipper", 1, taskv1.State_STATE_UNDONE)
			if have := task.GetOutcome().GetLogTail(); secret.IsSealed(have) != sealed || !sealed && have != "" {
				t.Errorf("everyone reads %q", have)
			}
			have, other := w.opened(task.Id, task), w.opened("another", task)
			if sealed && have != "password=hunter2" || other != "" {
				t.Errorf("it opens as %q, and as %q under another name", have, other)
			}
		})
	}
}

func TestARequestOpensTwentyOutputsAtMost(t *testing.T) {
	t.Parallel()
	q := &dispatcherv1.OpenOutputsRequest{Sealed: make([]*dispatcherv1.SealedOutput, mostOutputs+1)}
	_, err := (&api{}).openOutputs(t.Context(), bus.Caller{}, q)
	if have := fault.RefusalOf(err).GetCode(); have != code.Malformed {
		t.Errorf("it says %v", err)
	}
}
