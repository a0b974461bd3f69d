package journal

import (
	"time"

	"google.golang.org/protobuf/proto"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Ended is a task that ended here. It is never executed again.
type Ended struct {
	State   taskv1.State `json:"state"`
	Outcome []byte       `json:"outcome"` // garrison.task.v1.Outcome
	At      time.Time    `json:"at"`
}

// ReadOutcome returns the outcome as it was reported.
func (e Ended) ReadOutcome() (*taskv1.Outcome, error) {
	o := &taskv1.Outcome{}
	return o, proto.Unmarshal(e.Outcome, o)
}

// EndTask keeps how a task ended.
func (t *Tx) EndTask(id string, s taskv1.State, o *taskv1.Outcome) error {
	data, err := proto.Marshal(o)
	if err != nil {
		return err
	}
	return t.End(id, Ended{State: s, Outcome: data, At: time.Now()})
}
