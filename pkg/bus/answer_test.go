package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// askAs sends a request as a sender, and returns what became of it within a minute.
func askAs(t *testing.T, c *bus.Conn, sender string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := bus.Ask[*emptypb.Empty](ctx, c, "ask."+sender, &emptypb.Empty{})
	return err
}

func TestOneSendersRequestsAreNotHandledWithoutABound(t *testing.T) {
	t.Parallel()
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
	const sent, aSecond = 5000, 20
	began := time.Now()
	for range sent {
		if err := c.Publish("ask.mad", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := askAs(t, c, "sane"); err != nil {
		t.Errorf("another sender: %v", err)
	}
	polltest.Eventually(t, "some are handled", func() bool { return handled.Load() > 0 })
	n := handled.Load()
	if begun := int64(time.Since(began)/time.Second) + 1; n > aSecond*begun {
		t.Errorf("%d of %d requests of one sender were handled, want %d in each of %d seconds", n, sent, aSecond, begun)
	}
}

// While every slot is taken, a sender's requests beyond its rate are dropped and do not fill the queue in which those
// of other senders wait.
func TestRequestsBeyondASendersRateDoNotWait(t *testing.T) {
	t.Parallel()
	b := bustest.StartEmpty(t)
	const slots = 64
	var handling, looked atomic.Int64
	release := make(chan struct{})
	stop, err := bus.AnswerPaced(b.Dial(t, "service"), "ask.*", "service",
		func(_ context.Context, subject string, _ *emptypb.Empty) (*emptypb.Empty, error) {
			handling.Add(1)
			<-release
			return &emptypb.Empty{}, nil
		}, func(sender string) bool {
			looked.Add(1)
			return !strings.HasPrefix(sender, "ask.mad")
		})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	c := b.Dial(t, "client")
	answers := make(chan error, slots+1)
	for n := range slots {
		go func() { answers <- askAs(t, c, fmt.Sprint("slow-", n)) }()
	}
	polltest.Eventually(t, "every slot is taken", func() bool { return handling.Load() == slots })
	const rounds, each = 20, 1000
	for range rounds {
		want := looked.Load() + each
		for range each {
			if err := c.Publish("ask.mad", nil); err != nil {
				t.Fatal(err)
			}
		}
		polltest.Eventually(t, "all were looked at", func() bool { return looked.Load() == want })
	}
	go func() { answers <- askAs(t, c, "sane") }()
	polltest.Eventually(t, "the other sender's waits", func() bool { return looked.Load() == slots+rounds*each+1 })
	close(release)
	for range slots + 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
