package view

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestAnExpiredTaskIsRetriedUnlessItsServerSaysLaterHowItEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		late   proto.Message
		retry  int
		placed string
	}{
		{"never said", nil, 1, "i1"},
		{"succeeded", &taskv1.ReportedLate{State: taskv1.State_STATE_SUCCEEDED}, 0, "i1"},
		{"undone", &taskv1.ReportedLate{State: taskv1.State_STATE_UNDONE}, 0, ""},
		{"failed", &taskv1.ReportedLate{State: taskv1.State_STATE_FAILED}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := installed(1)
			a := l.view.Queue.Admissions(time.Time{}, 1, 1)[0]
			l.fold(ledger.Task, a.ID, &taskv1.Assigned{Opened: a.Opened})
			l.fold(ledger.Task, a.ID, &taskv1.Expired{State: taskv1.State_STATE_ASSIGNED})
			if c.late != nil {
				l.fold(ledger.Task, a.ID, c.late)
			}
			l.fold(ledger.Server, "s0", &serverv1.Offline{})
			l.fold(ledger.Server, "s0", &serverv1.Online{})
			if n := len(l.view.Queue.Openings(9)); n != c.retry {
				t.Errorf("%d tasks are due, want %d", n, c.retry)
			}
			i, _ := l.view.instances.table.Get("s0.a")
			placed := i.GetPlaced().GetId()
			if placed != c.placed {
				t.Errorf("the document has image %q, want %q", placed, c.placed)
			}
		})
	}
}
