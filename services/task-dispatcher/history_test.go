package dispatcher

import (
	"testing"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// DESIRED was not restored with the ledger: it holds documents of the time that the ledger lost.
func TestADocumentOfATimeThatWasLostIsReplaced(t *testing.T) {
	w := newWorld(t)
	ahead, raised := serverID(1), serverID(2)
	w.enrol(ahead, raised)
	for _, id := range []string{ahead, raised} {
		lost := &desiredv1.Document{ServerId: id, Cell: "main", Epoch: 1, Generation: 9999}
		w.publish(topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: id}), lost)
	}
	place := &serverv1.DocumentPlace{Epoch: 1, Generation: 9999}
	w.start(Config{})
	w.say(ledger.Server, ahead, &serverv1.Ahead{Place: place})
	bustest.Eventually(t, "the document of one that is ahead is the ledger's", func() bool {
		d := w.document(ahead)
		return d.GetGeneration() < 9999 && d.GetEpoch() == 1 && len(d.GetLineageGenerations()) > 0
	})
	if g := w.document(raised).GetGeneration(); g != 9999 {
		t.Errorf("the document of a server that nobody heard is at %d", g)
	}
	at := w.say(ledger.Server, raised, &serverv1.EpochRaised{Epoch: 2, Place: place})
	bustest.Eventually(t, "the document of a new epoch is written", func() bool {
		d := w.document(raised)
		return d.GetGeneration() == at && d.GetEpoch() == 2
	})
}

func TestNothingIsAdmittedToAServerThatIsAheadOrTwo(t *testing.T) {
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
			t.Error("a task does not say what it waits for")
		}
	}
	w.say(ledger.Server, lost, &serverv1.EpochRaised{Epoch: 2})
	w.say(ledger.Server, two, &serverv1.DuplicateEnded{})
	for _, id := range []string{lost, two} {
		w.awaitTask(d, id, "shipper", 1, taskv1.State_STATE_ASSIGNED)
	}
}
