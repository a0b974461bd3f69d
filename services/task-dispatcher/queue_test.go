package dispatcher

import (
	"context"
	"testing"
)

func TestAServerWaitsOnceAndComesAgainWhenItChangedMeanwhile(t *testing.T) {
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

func TestATaskIsMovedByOne(t *testing.T) {
	c := newMoving()
	if !c.take("a") || c.take("a") || !c.take("b") {
		t.Error("a task was taken twice, or not at all")
	}
	if c.give("a", "b"); !c.take("a") {
		t.Error("a task was not given back")
	}
}
