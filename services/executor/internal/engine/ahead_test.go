package engine

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// ahead has the document ask for an image ahead of its change, kept for a while. It returns the task.
func (b *workbench) ahead(m *imagev1.Manifest, keep time.Duration) string {
	b.doc.Generation++
	task := ident.New()
	b.doc.Requests = []*desiredv1.Request{{
		TaskId: task, Ahead: m, KeepUntil: timestamppb.New(time.Now().Add(keep)),
		Deadline: timestamppb.New(time.Now().Add(time.Hour)),
	}}
	return task
}

// noRequests is what the document is once its tasks ended.
func (b *workbench) noRequests() {
	b.doc.Generation++
	b.doc.Requests = nil
}

func fetchless(c *Config) { c.Fetcher = away{} }

func TestWhatIsFetchedAheadChangesNoAgentAndItsChangeFetchesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	pid := r.the("cn-agent").GetPid()
	next := b.image("cn-agent", "2.0.0", "ready")
	o := outcome(t, r.do(b.ahead(next, time.Hour)), good)
	var steps []taskv1.Step
	for _, s := range o.GetSteps() {
		steps = append(steps, s.GetStep())
	}
	if len(steps) != 5 || steps[4] != taskv1.Step_STEP_STAGE {
		t.Errorf("its steps are %v; want the five up to the staging", steps)
	}
	if !there(b.root.Image(next.Blob.Digest)) || r.good("cn-agent", "1.0.0").GetPid() != pid {
		t.Error("it is not there, or the agent is another process")
	}
	is, err := r.Status()
	if err != nil || !strings.HasPrefix(strings.Join(is.Ahead, "; "), "cn-agent 2.0.0, until ") {
		t.Errorf("fetched ahead %q, %v; want cn-agent 2.0.0", is.Ahead, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	b.noRequests()
	r = b.run(fetchless)
	r.offer()
	r.eventually("the agent runs", func() bool { return r.the("cn-agent").GetImage().GetVersion() == "1.0.0" })
	outcome(t, r.do(b.want(next)), good)
	r.good("cn-agent", "2.0.0")
	r.eventually("nothing is kept ahead", func() bool {
		is, err := r.Status()
		return err == nil && len(is.Ahead) == 0
	})
}

// stuck is a Fetcher that brings nothing until it is stopped.
type stuck struct{ began chan struct{} }

func (s stuck) Fetch(ctx context.Context, _ *imagev1.Blob, _ func(uint64)) error {
	close(s.began)
	<-ctx.Done()
	return ctx.Err()
}

func TestAnExecutorThatEndsWhileItFetchesAheadDoesItAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	began := make(chan struct{})
	r := b.run(func(c *Config) { c.Fetcher = stuck{began} })
	next := b.image("cn-agent", "1.0.0", "ready")
	task := b.ahead(next, time.Hour)
	r.offer()
	<-began
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	r.offer()
	outcome(t, r.wait(task), good)
	if !there(b.root.Image(next.Blob.Digest)) {
		t.Error("the image is not there")
	}
}

func TestWhatCannotBeFetchedAheadFailsWithItsStep(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run(fetchless)
	o := outcome(t, r.do(b.ahead(b.image("cn-agent", "1.0.0", "ready"), time.Hour)), taskv1.State_STATE_FAILED)
	if o.GetFailedStep() != taskv1.Step_STEP_FETCH || !strings.Contains(o.GetReason(), "the bus is away") {
		t.Errorf("it failed with %v", o)
	}
	other := b.image("cn-agent", "2.0.0", "ready")
	other.Platform.Arch = "pdp11"
	o = outcome(t, r.do(b.ahead(other, time.Hour)), taskv1.State_STATE_FAILED)
	if o.GetFailedStep() != taskv1.Step_STEP_CHECK {
		t.Errorf("an image for another machine failed with %v", o)
	}
}

func TestWhatWasFetchedAheadGoesAfterItsTimeAndOnRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	late, purged := b.image("cn-agent", "1.0.0", "ready"), b.image("cn-agent", "2.0.0", "ready")
	outcome(t, r.do(b.ahead(late, -time.Hour)), good)
	outcome(t, r.do(b.ahead(purged, time.Hour)), good)
	b.noRequests()
	r.offer()
	r.eventually("what is past its time is gone", func() bool { return !there(b.root.Image(late.Blob.Digest)) })
	if !there(b.root.Image(purged.Blob.Digest)) {
		t.Error("what has time left is gone too")
	}
	b.doc.Generation++
	b.doc.Requests = []*desiredv1.Request{{TaskId: "purge", PurgeKept: true}}
	outcome(t, r.do("purge"), good)
	if there(b.root.Image(purged.Blob.Digest)) {
		t.Error("the purge left what was fetched ahead")
	}
}

func TestAChangeThatNeedsRoomTakesThatOfWhatWasFetchedAheadAndNotTheOtherWayRound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	size := b.image("cn-agent", "1.0.0", "ready").GetBlob().GetUnpackedSizeBytes()
	b.smallDisk(strconv.FormatUint(spareBytes+8<<20+5*size, 10))
	r := b.run(keeping(9, 1<<30))
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), good)
	ended := taskv1.State_STATE_SUCCEEDED
	for n := 0; ended == taskv1.State_STATE_SUCCEEDED; n++ {
		version := "2.0." + string(rune('a'+n))
		ended = r.do(b.ahead(b.image("cn-agent", version, "ready"), time.Hour)).State
	}
	b.noRequests()
	r.offer()
	outcome(t, r.do(b.want(b.image("cn-agent", "3.0.0", "ready"))), good)
	b.wantVersions("1.0.0", "3.0.0")
}
