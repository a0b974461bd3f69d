package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// ahead has servers fetch an image ahead, and returns the generation of their tasks.
func (w *world) ahead(image *imagev1.Ref, until time.Time, servers ...string) uint64 {
	return w.say(ledger.Intent, ident.New(), &intentv1.Accepted{
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{
			Ahead: &imagev1.Ahead{Image: image, KeepUntil: timestamppb.New(until)},
		}}},
		Changed: uint32(len(servers)), ServerIds: servers,
	})
}

func TestWhatIsFetchedAheadComesAfterAllElseInHalfOfTheSlotsAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, stop := w.start(Config{Concurrency: 2})
	first, second, third := serverID(1), serverID(2), serverID(3)
	w.enrol(first, second, third)
	image, until := w.image("shipper", "2.0.0"), time.Now().Add(time.Hour).Truncate(time.Second)
	one := w.ahead(image, until, first)
	under := w.awaitTask(d, first, "", one, taskv1.State_STATE_ASSIGNED)
	two := w.ahead(image, until, second)
	w.awaitTask(d, second, "", two, taskv1.State_STATE_QUEUED)
	w.want(third, "shipper", 1, image)
	w.awaitTask(d, third, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	w.awaitTask(d, second, "", two, taskv1.State_STATE_QUEUED)
	polltest.Eventually(t, "the document asks for the image and names no change", func() bool {
		doc := w.document(first)
		if len(doc.GetRequests()) != 1 || len(doc.GetEntries()) != 0 {
			return false
		}
		q := doc.GetRequests()[0]
		return q.TaskId == under.Id && q.Ahead.GetId() == image.Id && q.KeepUntil.AsTime().Equal(until)
	})
	stop()
	d, _ = w.start(Config{Concurrency: 2})
	w.awaitTask(d, first, "", one, taskv1.State_STATE_ASSIGNED)
	w.report(first, under.Id, taskv1.State_STATE_SUCCEEDED, nil)
	w.awaitTask(d, first, "", one, taskv1.State_STATE_SUCCEEDED)
	w.awaitTask(d, second, "", two, taskv1.State_STATE_ASSIGNED)
	polltest.Eventually(t, "the document asks for nothing", func() bool {
		return len(w.document(first).GetRequests()) == 0
	})
}

func TestAnImageThatIsNoMoreIsNotFetchedAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	gone := &imagev1.Ref{Id: ident.New(), Version: "9.9.9"}
	got := w.awaitTask(d, s, "", w.ahead(gone, time.Now().Add(time.Hour), s), taskv1.State_STATE_CANCELLED)
	if got.Reason != "the image is no more" {
		t.Errorf("it ended because %q", got.Reason)
	}
}

func TestARefreshDoesNotWaitForWhatIsFetchedAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	image, until := w.image("shipper", "2.0.0"), time.Now().Add(time.Hour)
	w.awaitTask(d, s, "", w.ahead(image, until, s), taskv1.State_STATE_ASSIGNED)
	queued := w.ahead(w.image("shipper", "3.0.0"), until, s)
	w.awaitTask(d, s, "", queued, taskv1.State_STATE_QUEUED)
	refresh := w.say(ledger.Intent, ident.New(), &intentv1.Accepted{
		Intent:  &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{}}},
		Changed: 1, ServerIds: []string{s},
	})
	w.awaitTask(d, s, "", refresh, taskv1.State_STATE_ASSIGNED)
	w.awaitTask(d, s, "", queued, taskv1.State_STATE_QUEUED)
}

// A change for which there is room without what is fetched ahead is not refused because of it.
func TestWhatIsFetchedAheadMakesWayInADocumentForChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d, _ := w.start(Config{})
	s := serverID(1)
	w.enrol(s)
	large := ident.New()
	w.say(ledger.Image, large, &imagev1.Created{Manifest: &imagev1.Manifest{
		Id: large, Agent: "shipper", Version: "2.0.0",
		Blob: &imagev1.Blob{ChunkDigests: [][]byte{make([]byte, 500<<10)}},
	}})
	w.say(ledger.Image, large, &imagev1.Filled{})
	until := time.Now().Add(time.Hour)
	w.awaitTask(d, s, "", w.ahead(&imagev1.Ref{Id: large, Version: "2.0.0"}, until, s), taskv1.State_STATE_ASSIGNED)
	polltest.Eventually(t, "the document asks for it", func() bool { return len(w.document(s).GetRequests()) == 1 })
	full, agents := fullMetadata(t), 16
	var facts []ledger.Draft
	for n := range agents {
		name := fmt.Sprint("agent-", n)
		facts = append(facts, w.wantWith(s, name, 1, w.image(name, "1.0.0"), full))
	}
	w.sayAll(facts)
	for n := range agents {
		w.awaitTask(d, s, fmt.Sprint("agent-", n), 1, taskv1.State_STATE_ASSIGNED)
	}
	polltest.Eventually(t, "the document has the changes and not the image", func() bool {
		return len(w.document(s).GetEntries()) == agents && len(w.document(s).GetRequests()) == 0
	})
}
