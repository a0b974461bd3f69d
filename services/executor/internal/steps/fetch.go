package steps

import (
	"context"
	"errors"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

// Fetcher brings every chunk of a blob into the cache, each one verified. It retries until
// ctx is done or it is certain that the fetch cannot succeed.
type Fetcher interface {
	Fetch(ctx context.Context, b *imagev1.Blob, progress func(done uint64)) error
}

// Fetch brings the missing chunks.
type Fetch struct{ Fetcher Fetcher }

// Do implements Step.
func (s Fetch) Do(ctx context.Context, r *Run) error {
	if r.prepared {
		return nil
	}
	b := r.To.GetBlob()
	shrink := func(done uint64) { // releases the space of chunks that are in the cache, or about to be
		r.space.ShrinkTo(switchBytes + unpackedBytes(b) + b.GetSizeBytes() - min(done+fetchAhead, b.GetSizeBytes()))
	}
	shrink(0)
	return s.Fetcher.Fetch(ctx, b, func(done uint64) {
		shrink(done)
		r.Progress(done, b.GetSizeBytes())
	})
}

// Verify compares the whole blob with its digest.
type Verify struct{ Images *store.Images }

// Do implements Step.
func (s Verify) Do(ctx context.Context, r *Run) error {
	if r.prepared {
		return nil
	}
	return s.Images.Verify(ctx, r.To.GetBlob())
}

// Stage unpacks and seals the image; the chunks are not needed after that.
type Stage struct {
	Root   layout.Root
	Images *store.Images
}

// Do implements Step.
func (s Stage) Do(ctx context.Context, r *Run) error {
	if err := s.Images.Stage(ctx, r.To.Manifest, r.space.Use); err != nil {
		return err
	}
	r.space.ShrinkTo(switchBytes)
	defer r.freeBlob()
	return os.RemoveAll(s.Root.CacheOf(r.To.Digest()))
}

// Replace puts the fresh copy of the image in the place of a damaged one. The record says so
// first: from then on the change is finished or rolled back, never dropped.
type Replace struct{ Images *store.Images }

// Do implements Step.
func (s Replace) Do(_ context.Context, r *Run) error {
	digest := r.To.Digest()
	if !r.ReplacesImage && !s.Images.Damaged(digest) {
		return nil
	}
	r.ReplacesImage = true
	if err := r.Save(); err != nil {
		return err
	}
	r.Point("renewing")
	if err := s.Images.Renew(digest); err != nil {
		return err
	}
	r.Point("renewed")
	return nil
}

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
