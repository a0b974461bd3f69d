package bus_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A request that is pending at a disconnect is never answered. It must not wait until
// the end of a deadline that was set for something longer, nor the writer, whose other
// appends wait behind.
func TestNobodyWaitsForAnAnswerThatARestartOfTheBusTook(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	w := b.Writer(t, c)
	if _, err := w.Append(t.Context(), ledger.Free(queued("first"))); err != nil {
		t.Fatal(err)
	}
	asks := map[string]func(context.Context, int) error{
		"append": func(ctx context.Context, n int) error {
			_, err := w.Append(ctx, ledger.Free(queued(fmt.Sprintf("a%d", n))),
				ledger.Free(queued(fmt.Sprintf("b%d", n))))
			return err
		},
		"end of the stream": func(ctx context.Context, _ int) error {
			_, err := c.Stream(ctx, topology.Ledger)
			return err
		},
		"last fact": func(ctx context.Context, _ int) error {
			_, err := c.DirectGet(ctx, topology.Ledger, queuedSubject("first"))
			return err
		},
		"facts": func(ctx context.Context, _ int) error {
			_, err := c.DirectGetFrom(ctx, topology.Ledger, ledger.AllSubjects, 1, 100)
			return err
		},
	}
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for what, ask := range asks {
			for g := range 4 {
				all.Go(func() { askUntil(ctx, t, stop, what, func(n int) error { return ask(ctx, 1000*g+n) }) })
			}
		}
		time.Sleep(50 * time.Millisecond)
		b.Restart(t, func(string) {})
		close(stop)
		all.Wait()
		cancel()
	}
}

// askUntil asks again and again, also while the bus is away, and fails the test when a question waits for its deadline.
func askUntil(ctx context.Context, t *testing.T, stop chan struct{}, what string, ask func(int) error) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		err := ask(n)
		if ctx.Err() != nil {
			t.Errorf("%s: waited until its deadline (%v)", what, err)
			return
		}
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
}

func queuedSubject(key string) string { return ledger.Free(queued(key)).Subject() }
