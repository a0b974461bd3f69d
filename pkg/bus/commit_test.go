package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// lateRecorder refuses, after one try without an answer, and has forgotten all ids.
type lateRecorder struct{ tries int }

func (l *lateRecorder) record(context.Context, []*nats.Msg) (uint64, error) {
	if l.tries++; l.tries == 1 {
		return 0, fault.New(fault.Unavailable, "no answer")
	}
	return 0, refused(codeWrongLastSequence)
}

func (l *lateRecorder) find(context.Context, *nats.Msg) (uint64, error) { return 0, nil }

// A machine that slept between two tries asks a stream that has forgotten the first.
func TestAConflictAfterTheWindowLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for slept, want := range map[time.Duration]fault.Kind{0: fault.Conflict, 2 * believeFor: fault.Unavailable} {
		u, err := newUnit(t.Context(), []ledger.Draft{ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: "a", Body: &taskv1.Queued{}, ID: "one", At: time.Now(),
			Source: ledger.Dispatcher, Actor: "test",
		})})
		if err != nil {
			t.Fatal(err)
		}
		u.born = u.born.Add(-slept)
		newWriter(&lateRecorder{}).commitTogether(t.Context(), []*unit{u})
		if r := <-u.done; !fault.Is(r.err, want) {
			t.Errorf("slept %v: %v (%v), want %v", slept, r.err, fault.KindOf(r.err), want)
		}
	}
}

func TestAllTriesEndWellWithinTheLedgersWindow(t *testing.T) {
	t.Parallel()
	for _, s := range topology.Streams(1) {
		tries := max(appendWithin, commitWithin)
		if s.Name == topology.Ledger && (believeFor > s.Duplicates/2 || tries > believeFor/2) {
			t.Errorf("believed for %v and tried for %v, with a window of %v", believeFor, tries, s.Duplicates)
		}
	}
}
