package catalog

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var narrow = limits{servers: 3, window: 4, pace: 1000, burst: 3000}

func taken(t *testing.T, q *turns[string]) turn[string] {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	next, ok := q.take(ctx)
	if !ok {
		t.Fatal("nothing came in an hour")
	}
	return next
}

func TestServersAreServedInTurn(t *testing.T) {
	t.Parallel()
	q := newTurns[string](narrow)
	for _, r := range []string{"a1", "a2", "a3", "b1", "a4", "b2", "c1"} {
		if !q.add(r[:1], r) {
			t.Fatalf("%s was refused", r)
		}
	}
	var got []string
	for range 7 {
		got = append(got, taken(t, q).request)
	}
	if diff := cmp.Diff([]string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestAServerThatAsksForMoreThanItsWindowIsRefused(t *testing.T) {
	t.Parallel()
	q := newTurns[string](narrow)
	for n := range 10 {
		if ok := q.add("a", strconv.Itoa(n)); ok != (n < narrow.window) {
			t.Errorf("request %d: added is %v", n, ok)
		}
	}
	if !q.add("b", "b") {
		t.Error("another server was refused")
	}
	taken(t, q)
	if !q.add("a", "after one was served") {
		t.Error("refused, though one of its requests was served")
	}
}

func TestAServerThatReceivedItsBurstIsPacedAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTurns[string](narrow)
		began := time.Now()
		received := 0
		for time.Since(began) < 10*time.Second {
			q.add("a", "more")
			taken(t, q).answered(500)
			received += 500
		}
		if most := narrow.burst + 11*narrow.pace; received > most || received < narrow.burst+9*narrow.pace {
			t.Errorf("received %d bytes in 10 s, want about %d", received, narrow.burst+10*narrow.pace)
		}
		q.add("a", "waits")
		now := time.Now()
		q.add("b", "other")
		if next := taken(t, q); next.request != "other" || time.Since(now) > 0 {
			t.Errorf("%s was served after %v, want the other server at once", next.request, time.Since(now))
		}
		taken(t, q)
	})
}

func TestOnlySoManyServersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTurns[string](narrow)
		for n := range narrow.servers {
			q.add(strconv.Itoa(n), "x")
			taken(t, q).answered(narrow.burst)
		}
		if q.add("one more", "x") {
			t.Error("added, though every place is taken by a server that has used its burst")
		}
		time.Sleep(4 * time.Second)
		if !q.add("one more", "x") {
			t.Error("refused, though the others have paid")
		}
	})
}
