package view

import (
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// What goes on after a wait asks for no slot: without a bound a fleet's nightly backup would release all at once.
func TestNeverMoreThanTwiceTheLimitAreUnderWayWithTheDeferred(t *testing.T) {
	const limit = 3
	l := installed(10)
	l.open(10)
	var deferred []string
	for {
		admitted := l.view.Queue.Admissions(time.Time{}, limit, 1)
		if len(admitted) == 0 {
			break
		}
		l.fold(ledger.Task, admitted[0].ID, &taskv1.Assigned{})
		l.fold(ledger.Task, admitted[0].ID, &taskv1.Started{})
		l.fold(ledger.Task, admitted[0].ID, &taskv1.Deferred{})
		deferred = append(deferred, admitted[0].ID)
	}
	if n := l.view.Queue.Waiting(); n != 2*limit || l.view.Queue.UnderWay() != 0 {
		t.Errorf("%d are deferred and %d under way, want %d and none", n, l.view.Queue.UnderWay(), 2*limit)
	}
	for _, id := range deferred {
		l.fold(ledger.Task, id, &taskv1.Resumed{})
	}
	if n := l.view.Queue.UnderWay(); n != 2*limit || l.view.Queue.Waiting() != 0 ||
		len(l.view.Queue.Admissions(time.Time{}, limit, 10)) > 0 {
		t.Errorf("%d are under way and %d deferred, or more are admitted", n, l.view.Queue.Waiting())
	}
	for _, id := range deferred[:limit+1] {
		l.fold(ledger.Task, id, &taskv1.Succeeded{})
	}
	if n := len(l.view.Queue.Admissions(time.Time{}, limit, 10)); n != 1 {
		t.Errorf("%d are admitted, want 1", n)
	}
}
