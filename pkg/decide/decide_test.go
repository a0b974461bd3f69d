package decide_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// world is a ledger of keys, and a view of it that moves on only when it is waited for.
type world struct {
	ledger, view []string
	appends      int
	fail         error // what Append returns, unless nil
	others       int   // how many times another replica records first
}

func (w *world) Read(look func()) { look() }

func (w *world) Wait(_ context.Context, sequence uint64) error {
	if n := int(sequence); n > len(w.view) {
		w.view = slices.Clone(w.ledger[:n])
	}
	return nil
}

func (w *world) Stream(context.Context, string) (bus.Stream, error) {
	return bus.Stream{LastSequence: uint64(len(w.ledger))}, nil
}

func (w *world) Append(_ context.Context, drafts ...ledger.Draft) (uint64, error) {
	w.appends++
	if w.fail != nil {
		return 0, w.fail
	}
	if w.others > 0 {
		w.others--
		w.ledger = append(w.ledger, "other")
	}
	for _, d := range drafts {
		if d.Guard.Sequence != uint64(len(w.ledger)) {
			return 0, fault.New(fault.Conflict, "the ledger ends at %d", len(w.ledger))
		}
		w.ledger = append(w.ledger, d.Key)
	}
	return uint64(len(w.ledger)), nil
}

func (w *world) decider() *decide.Decider {
	return decide.New(decide.Config{Service: "test", Ledger: w, View: w, Writer: w})
}

// put decides to record a key at the end of the ledger as the view has it.
func (w *world) put(d *decide.Decider, key string) decide.Decision {
	return func() ([]ledger.Draft, error) {
		f := d.Fact(decide.Origin{}, ledger.Task, key, &taskv1.Queued{})
		return []ledger.Draft{ledger.OnKey(f, uint64(len(w.view)))}, nil
	}
}

func TestTheViewHoldsWhatWasRecordedWhenDoReturns(t *testing.T) {
	t.Parallel()
	w := &world{}
	d := w.decider()
	sequence, err := d.Do(t.Context(), w.put(d, "a"))
	if err != nil || sequence != 1 || !slices.Equal(w.view, []string{"a"}) {
		t.Errorf("at %d with %v: %v", sequence, w.view, err)
	}
}

func TestADecisionWithoutFactsRecordsNothing(t *testing.T) {
	t.Parallel()
	w := &world{}
	sequence, err := w.decider().Do(t.Context(), func() ([]ledger.Draft, error) { return nil, nil })
	if sequence != 0 || err != nil || w.appends != 0 {
		t.Errorf("at %d after %d appends: %v", sequence, w.appends, err)
	}
}

func TestAConflictLeadsToANewDecisionOnAFreshView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{others: 3}
		d := w.decider()
		if _, err := d.Do(t.Context(), w.put(d, "a")); err != nil {
			t.Fatal(err)
		}
		if want := []string{"other", "other", "other", "a"}; !slices.Equal(w.view, want) || w.appends != 4 {
			t.Errorf("%v after %d appends, want %v after 4", w.view, w.appends, want)
		}
	})
}

func TestTheLastConflictIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{others: 1000}
		d := w.decider()
		began := time.Now()
		_, err := d.Do(t.Context(), w.put(d, "a"))
		if !fault.Is(err, fault.Unavailable) || w.appends != decide.Tries {
			t.Errorf("%v after %d appends, want unavailable after %d", err, w.appends, decide.Tries)
		}
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("the pauses add up to %v, want at most about a second", took)
		}
	})
}

func TestARefusalIsFinalOnlyOnAViewThatIsUpToDate(t *testing.T) {
	t.Parallel()
	w := &world{ledger: []string{"a"}} // recorded by another replica; the view lags behind
	d := w.decider()
	asked := 0
	_, err := d.Do(t.Context(), func() ([]ledger.Draft, error) {
		if asked++; !slices.Contains(w.view, "a") {
			return nil, fault.New(fault.NotFound, "no a")
		}
		return nil, nil
	})
	if err != nil || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

func TestTheErrorOfADecisionIsNotRetriedWhateverItsKind(t *testing.T) {
	t.Parallel()
	w := &world{}
	asked, refused := 0, fault.New(fault.Conflict, "in use")
	_, err := w.decider().Do(t.Context(), func() ([]ledger.Draft, error) { asked++; return nil, refused })
	if !errors.Is(err, refused) || asked != 2 {
		t.Errorf("asked %d times, want 2: %v", asked, err)
	}
}

func TestOtherErrorsOfAnAppendAreReturnedAsTheyAre(t *testing.T) {
	t.Parallel()
	refusal := &apiv1.Refusal{Code: "A"}
	for _, fail := range []error{
		fault.New(fault.Unavailable, "the outcome is unknown"), fault.Refuse(fault.Conflict, refusal),
		errors.New("x"),
	} {
		w := &world{fail: fail}
		d := w.decider()
		if _, err := d.Do(t.Context(), w.put(d, "a")); !errors.Is(err, fail) || w.appends != 1 {
			t.Errorf("%v after %d appends, want %v after 1", err, w.appends, fail)
		}
	}
}

func TestAContextThatIsDoneEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		w := &world{others: 1000}
		d := w.decider()
		if _, err := d.Do(ctx, w.put(d, "a")); !fault.Is(err, fault.Unavailable) || w.appends >= decide.Tries {
			t.Errorf("%v after %d appends", err, w.appends)
		}
	})
}

func TestAFactNamesItsOrigin(t *testing.T) {
	t.Parallel()
	at := time.Unix(5, 0)
	d := decide.New(decide.Config{
		Service: "test", Now: func() time.Time { return at }, NewID: func() string { return "id" },
	})
	f := d.Fact(decide.By(bus.Caller{Actor: "alice", Request: "r", Trace: "t"}), ledger.Task, "k", &taskv1.Queued{})
	if f.Actor != "alice" || f.Request != "r" || f.Cause != "request/r" || f.Trace != "t" ||
		f.ID != "id" || !f.At.Equal(at) || f.Source != "test" ||
		f.Subject() != ledger.FactSubject(ledger.Task, "k", "queued") {
		t.Errorf("%+v", f)
	}
	if f := d.Fact(decide.Origin{}, ledger.Task, "k", &taskv1.Queued{}); f.Actor != "test" || f.Cause != "" {
		t.Errorf("actor %q, cause %q", f.Actor, f.Cause)
	}
}

// Two replicas record on the same key: the second one loses, decides again on what the first one
// recorded, and finds that nothing is left to do.
func Example() {
	w := &world{others: 1}
	decider := w.decider()
	sequence, err := decider.Do(context.Background(), func() ([]ledger.Draft, error) {
		if len(w.view) > 0 {
			fmt.Println("already recorded by", w.view[0])
			return nil, nil
		}
		return w.put(decider, "this one")()
	})
	fmt.Println(sequence, err)
	// Output:
	// already recorded by other
	// 0 <nil>
}
