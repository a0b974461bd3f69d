package engine

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/space"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
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

// lingering is a Fetcher that has brought one blob and does not end until it is opened.
type lingering struct {
	imagetest.Shelf
	of          string
	began, open chan struct{}
}

func (g lingering) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	if err := g.Shelf.Fetch(ctx, b, progress); err != nil || string(b.Digest) != g.of {
		return err
	}
	close(g.began)
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated begins an executor that is fetching an image ahead.
func (b *workbench) gated(m *imagev1.Manifest) (*running, lingering, string) {
	g := lingering{
		imagetest.Shelf{From: b.shelf, To: b.root}, string(m.Blob.Digest), make(chan struct{}), make(chan struct{}),
	}
	r := b.run(func(c *Config) { c.Fetcher = g })
	task := b.ahead(m, time.Hour)
	r.offer()
	<-g.began
	return r, g, task
}

func TestWhatIsBeingFetchedAheadGivesWayToAChangeThatNeedsTheRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.smallDisk("128m")
	early, late := b.image("cn-agent", "2.0.0", "ready"), b.image("cn-agent", "1.0.0", "ready")
	r, _, task := b.gated(early)
	free, err := space.Look(string(b.root))
	if err != nil {
		t.Fatal(err)
	}
	leave := steps.NeedBytes(late.Blob) + spareBytes - 1<<20 // what is fetched ahead holds more than that
	if free.Bytes < leave {
		t.Fatalf("the disk has %d free bytes, want %d", free.Bytes, leave)
	}
	f, err := os.Create(filepath.Join(filepath.Dir(string(b.root)), "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(free.Bytes-leave)); err != nil {
		t.Fatal(err)
	}
	outcome(t, r.do(b.want(late)), good)
	o := outcome(t, r.wait(task), taskv1.State_STATE_FAILED)
	if o.GetCode() != code.NoSpace || o.GetReason() != "a change needed the room that it took" {
		t.Errorf("it ended with %v", o)
	}
	if there(b.root.Image(early.Blob.Digest)) || there(b.root.CacheOf(early.Blob.Digest)) {
		t.Error("what was fetched ahead is on the disk still")
	}
}

func TestWhatIsBeingFetchedAheadStaysWholeWhenTheDocumentAsksNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r, g, task := b.gated(b.image("cn-agent", "1.0.0", "ready"))
	b.noRequests()
	r.offer()
	r.eventually("the document is taken", func() bool {
		var applied uint64
		if err := r.j.Read(func(tx *journal.Tx) error { applied = tx.Applied(); return nil }); err != nil {
			t.Fatal(err)
		}
		return applied == b.doc.Generation
	})
	if err := r.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	outcome(t, r.wait(task), good)
}
