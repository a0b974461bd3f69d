package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// replayed replays a stream until it has n messages or ends by itself.
func replayed(t *testing.T, c *bus.Conn, stream string, from uint64, n int) (got []uint64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err = c.Replay(ctx, stream, from, func(msgs []bus.Message) error {
		for _, m := range msgs {
			got = append(got, m.Sequence)
		}
		if len(got) >= n {
			cancel()
		}
		return nil
	})
	return got, err
}

func TestReplayEndsAtAGapInsteadOfPassingItOver(t *testing.T) {
	c := bustest.Start(t).Dial(t, "test")
	for _, server := range []string{"a", "b", "c", "b", "d"} { // the second b takes the place of the first, at 2
		if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: "garrison.desired.main." + server, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []uint64{0, 1, 2} {
		got, err := replayed(t, c, topology.Desired, from, 5)
		if err == nil {
			t.Errorf("from %d: %v and no error, though 2 is missing", from, got)
		}
	}
	if got, err := replayed(t, c, topology.Desired, 3, 3); err != nil || len(got) != 3 {
		t.Errorf("from 3: %v, %v", got, err)
	}
	// What is missing at the very start is missing too: whoever folds from there would fold less than there was.
	if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: "garrison.desired.main.a", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if got, err := replayed(t, c, topology.Desired, 1, 5); err == nil {
		t.Errorf("from 1: %v and no error, though 1 is missing", got)
	}
}

// What follows a stream begins anew when the bus is back. The replay that was under way
// must end then, whatever its consumer makes of the bus at that moment.
func TestAReplayEndsWhenItIsToldToAsTheBusComesBack(t *testing.T) {
	b := bustest.Start(t)
	c := b.Dial(t, "test")
	back := make(chan struct{}, 1)
	c.OnBack(func() { back <- struct{}{} })
	for range 3 {
		var ended []chan struct{}
		var cancels []context.CancelFunc
		for range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := make(chan struct{})
			go func() {
				defer close(end)
				_ = c.Replay(ctx, topology.Ledger, 1, func([]bus.Message) error { return nil }) // the bus may be gone before it has begun
			}()
			ended, cancels = append(ended, end), append(cancels, cancel)
		}
		time.Sleep(50 * time.Millisecond) // they wait for messages
		b.Restart(t, func(string) {})
		<-back
		for _, cancel := range cancels { // one is hit at the worst moment
			cancel()
			time.Sleep(200 * time.Microsecond)
		}
		for n, end := range ended {
			select {
			case <-end:
			case <-time.After(10 * time.Second):
				t.Fatalf("number %d has not ended 10 s after it was told to", n)
			}
		}
	}
}
