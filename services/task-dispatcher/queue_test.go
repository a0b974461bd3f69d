package dispatcher

import (
	"context"
	"testing"
)

func TestAServerIsQueuedOnceAndAgainWhenItChangedMeanwhile(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q := newQueue()
	for range 3 {
		q.add("a")
	}
	first, ok := q.take(ctx)
	if first != "a" || !ok {
		t.Fatalf("took %q, %v", first, ok)
	}
	if again, ok := q.take(ctx); ok {
		t.Fatalf("took %q a second time", again)
	}
	q.add("a")
	if again, ok := q.take(ctx); ok {
		t.Fatalf("took %q while another worker has it", again)
	}
	q.done("a")
	if again, ok := q.take(ctx); again != "a" || !ok {
		t.Fatalf("took %q, %v, want it again", again, ok)
	}
	q.done("a")
	if !q.idle() {
		t.Error("something is left")
	}
}

func TestATaskIsReservedOnce(t *testing.T) {
	t.Parallel()
	c := newReservations()
	if !c.reserve("a") || c.reserve("a") || !c.reserve("b") {
		t.Error("a task was reserved twice, or not at all")
	}
	if c.release("a", "b"); !c.reserve("a") {
		t.Error("a task was not released")
	}
}
