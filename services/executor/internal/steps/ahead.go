package steps

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

var errGaveWay = refuse(code.NoSpace, "a change needed the room that it took")

// Ahead fetches, verifies and unpacks an image ahead of the change that brings it, with the steps of a change that
// touch no agent. It is in no journal: what it began is done again after a crash, or swept.
type Ahead struct {
	Steps  map[change.State]Step
	Trust  func(*imagev1.Manifest) error
	NewRun func(rec *change.Record) *Run
}

// aheadOf are the states of a change whose steps touch no agent, in order. Of the checks only those of the image are
// made: what the change needs is checked when it comes.
var aheadOf = []change.State{change.Checking, change.Reserving, change.Fetching, change.Verifying, change.Staging}

// Do brings an image to the disk. It returns how long each step took, and the step that failed.
func (s Ahead) Do(ctx context.Context, task string, m *imagev1.Manifest) (took []*taskv1.StepTime, f *change.Failure) {
	r := s.NewRun(&change.Record{
		Agent: m.GetAgent(), TaskID: task, To: change.Manifest{Manifest: m}, BeganAt: time.Now(),
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.ahead, r.giveWay = true, func() { cancel(errGaveWay) }
	defer r.Release()
	for _, at := range aheadOf {
		r.Step = change.Steps[at]
		step := s.Steps[at]
		if at == change.Checking {
			step = CheckImage{Trust: s.Trust}
		}
		r.Progress(0, 0)
		r.Point("ahead " + string(at))
		began := time.Now()
		if err := step.Do(ctx, r); err != nil {
			if errors.Is(context.Cause(ctx), errGaveWay) {
				err = errGaveWay
			}
			return took, Failure(r.Step, err)
		}
		took = append(took, &taskv1.StepTime{Step: r.Step, Took: durationpb.New(time.Since(began))})
	}
	return took, nil
}
