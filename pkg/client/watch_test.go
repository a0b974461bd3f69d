package client_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func TestWatchYieldsProgressUntilEveryIntentHasEndedAndSurvivesARestartOfTheService(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var asked atomic.Int32
	answer(t, serve(t, b, ledger.Dispatcher), "GetIntentProgress",
		func(q *dispatcherv1.GetIntentProgressRequest) (*dispatcherv1.GetIntentProgressResponse, error) {
			n := asked.Add(1)
			if n == 2 {
				return nil, fault.New(fault.Unavailable, "restarting")
			}
			r := &dispatcherv1.GetIntentProgressResponse{}
			for _, id := range q.GetIntentIds() {
				r.Intents = append(r.Intents, &dispatcherv1.IntentProgress{Ended: id == "a" || n > 2})
			}
			return r, nil
		})
	var ended []bool
	unavailable := 0
	for p, err := range connect(t, b).Watch(within(t), 20, "a", "b") {
		if fault.Is(err, fault.Unavailable) {
			unavailable++
			continue
		}
		if err != nil || len(p) != 2 {
			t.Fatalf("%v (%v), want both intents", p, err)
		}
		ended = append(ended, p.Ended())
	}
	if len(ended) != 2 || ended[0] || !ended[1] || unavailable != 1 {
		t.Errorf("%v with %d errors, want one look before and one behind the error", ended, unavailable)
	}
}

func TestTheProgressOfManyIntentsIsAskedForInParts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var asked []int
	answer(t, serve(t, b, ledger.Dispatcher), "GetIntentProgress",
		func(q *dispatcherv1.GetIntentProgressRequest) (*dispatcherv1.GetIntentProgressResponse, error) {
			asked = append(asked, len(q.GetIntentIds()))
			r := &dispatcherv1.GetIntentProgressResponse{}
			for _, id := range q.GetIntentIds() {
				n, err := strconv.Atoi(id)
				if err != nil {
					return nil, err
				}
				r.Intents = append(r.Intents, &dispatcherv1.IntentProgress{Slow: uint32(n)})
			}
			return r, nil
		})
	var ids []string
	for n := range 250 {
		ids = append(ids, strconv.Itoa(n))
	}
	p, err := connect(t, b).Progress(within(t), 0, ids...)
	if err != nil || len(p) != len(ids) || !slices.Equal(asked, []int{100, 100, 50}) {
		t.Fatalf("%d of %d in parts of %v: %v", len(p), len(ids), asked, err)
	}
	for n, one := range p {
		if one.GetSlow() != uint32(n) {
			t.Fatalf("intent %d has the progress of %d", n, one.GetSlow())
		}
	}
}

func TestAwaitLooksAgainSoonAfterAFact(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := connectToLedger(t, b)
	looks := 0
	err := c.Await(within(t), func(ctx context.Context) (bool, error) {
		if looks++; looks == 1 {
			recordFacts(t, b, 1)
		}
		end, err := c.LedgerEnd(ctx)
		return end == 1 && looks > 1, err
	})
	if err != nil || looks != 2 {
		t.Errorf("%d looks (%v), want 2", looks, err)
	}
}

func TestAwaitEndsWithItsContextAndWithAnErrorThatIsNotForNow(t *testing.T) {
	t.Parallel()
	c := connect(t, bustest.Start(t))
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	err := c.Await(ctx, func(context.Context) (bool, error) { return false, fault.New(fault.Unavailable, "not now") })
	if !errors.Is(err, late) {
		t.Errorf("%v, want the cause of the end", err)
	}
	err = c.Await(within(t), func(context.Context) (bool, error) { return false, fault.New(fault.Invalid, "never") })
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("%v, want Invalid", err)
	}
}
