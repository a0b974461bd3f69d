package engine

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The dispatcher ends a task at its deadline; what the server says later changes nothing any
// more. So the server undoes before.
func TestAVersionThatTakesTooLongIsUndoneBeforeTheDeadlineOfItsTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	slow := b.image("cn-agent", "2.0.0", "mute", func(m *imagev1.Manifest) { m.Run.Ready.TimeoutMs = 3600_000 })
	task := b.want(slow)
	deadline := time.Now().Add(12 * time.Second)
	b.doc.Entries[0].Deadline = timestamppb.New(deadline)
	ended := r.do(task)
	o := outcome(t, ended, undone)
	if o.GetCode() != code.TimedOut || o.GetFailedStep() != taskv1.Step_STEP_PROVE {
		t.Errorf("outcome %v, want %s in the proof", o, code.TimedOut)
	}
	if !ended.At.Before(deadline) {
		t.Errorf("it ended %s after the deadline", ended.At.Sub(deadline))
	}
	r.good("cn-agent", "1.0.0")
}
