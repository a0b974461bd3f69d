package bus_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
)

func TestOneSendersRequestsAreNotHandledWithoutABound(t *testing.T) {
	b := bustest.StartEmpty(t)
	var handled atomic.Int64
	stop, err := bus.Answer(b.Dial(t, "service"), "ask.*", "service",
		func(_ context.Context, subject string, _ *emptypb.Empty) (*emptypb.Empty, error) {
			if subject == "ask.mad" {
				handled.Add(1)
			}
			return &emptypb.Empty{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := b.Dial(t, "client")
	const sent = 5000
	for range sent {
		if err := c.Publish("ask.mad", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bus.Ask[*emptypb.Empty](t.Context(), c, "ask.sane", &emptypb.Empty{}); err != nil {
		t.Errorf("another sender: %v", err)
	}
	if n := handled.Load(); n == 0 || n > sent/10 {
		t.Errorf("%d of %d requests of one sender were handled", n, sent)
	}
}
