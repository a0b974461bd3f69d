package dispatcher

import (
	"testing"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// store stores a document that no dispatcher wrote.
func (w *world) storeForeign(id string, epoch, generation uint64) {
	w.publish(topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: id}),
		&desiredv1.Document{ServerId: id, Cell: "main", Epoch: epoch, Generation: generation})
}

// awaitOwn waits until a server's document is one of its epoch that a dispatcher made.
func (w *world) awaitOwn(id string, epoch uint64) (d *desiredv1.Document) {
	w.t.Helper()
	polltest.Eventually(w.t, "the document is the ledger's", func() bool {
		d = w.document(id)
		return d.GetEpoch() == epoch && d.GetGeneration() < 999 && len(d.GetLineageGenerations()) > 0
	})
	return d
}

// DESIRED was not restored with the ledger: it holds documents from the time that the ledger lost. Or a thief of the
// dispatcher's key wrote them.
func TestADocumentThatTheLedgerCannotMakeIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	beyond, last, epoch, near := serverID(1), serverID(2), serverID(3), serverID(4)
	w.enrol(beyond, last, epoch, near)
	w.storeForeign(beyond, 1, 9999)
	w.storeForeign(last, 1, 1<<64-1)
	w.storeForeign(epoch, 1<<64-1, 1)
	w.storeForeign(near, 1, 12) // the end of the ledger, and a fact about this server that changes no document
	d, _ := w.start(Config{})
	for _, id := range []string{beyond, last, epoch, near} {
		w.awaitOwn(id, 1)
	}
	if got := d.publisher.foreign.said; len(got) != 4 {
		t.Errorf("the log has lines about %d servers, want 4", len(got))
	}
	place := &serverv1.DocumentPlace{Generation: 9999}
	at := w.say(ledger.Server, beyond, &serverv1.EpochRaised{Epoch: 2, Place: place})
	if d := w.awaitOwn(beyond, 2); d.GetGeneration() != at {
		t.Errorf("the document of a new epoch is of generation %d, want %d", d.GetGeneration(), at)
	}
}

// A document is written over when its server says what is wrong with it, also while nothing else changes.
func TestADocumentThatItsServerRefusesIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forged, lost := serverID(1), serverID(2)
	w.enrol(forged, lost)
	w.start(Config{})
	w.awaitOwn(forged, 1)
	w.awaitOwn(lost, 1)
	w.storeForeign(forged, 1, 1<<64-1)
	w.storeForeign(lost, 1, 9999)
	w.say(ledger.Server, forged, &serverv1.ConditionChanged{
		State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, Code: "IMPOSSIBLE_DOCUMENT",
	})
	w.say(ledger.Server, lost, &serverv1.Ahead{Place: &serverv1.DocumentPlace{Epoch: 1, Generation: 9999}})
	w.awaitOwn(forged, 1)
	w.awaitOwn(lost, 1)
}

func TestNothingIsAdmittedToAServerThatIsAheadOrDuplicated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost, two := serverID(1), serverID(2)
	w.enrol(lost, two)
	w.agent("shipper", 1)
	d, _ := w.start(Config{})
	w.say(ledger.Server, lost, &serverv1.Ahead{Place: &serverv1.DocumentPlace{Epoch: 1, Generation: 9999}})
	w.say(ledger.Server, two, &serverv1.Duplicated{})
	image := w.image("shipper", "1.0.0")
	for _, id := range []string{lost, two} {
		w.want(id, "shipper", 1, image)
		if task := w.awaitTask(d, id, "shipper", 1, taskv1.State_STATE_QUEUED); task.Reason == "" {
			t.Error("a task does not show why it waits")
		}
	}
	w.say(ledger.Server, lost, &serverv1.EpochRaised{Epoch: 2})
	w.say(ledger.Server, two, &serverv1.DuplicateEnded{})
	for _, id := range []string{lost, two} {
		w.awaitTask(d, id, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	}
}
