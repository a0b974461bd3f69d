package bus_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// A wait that ends without a bus names why that could not be reached, and not only that it took too long.
func TestAWaitForABusThatRefusesNamesIt(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	_ = l.Close()
	c, err := bus.Dial(bus.Options{URL: url, Name: "alice", Persist: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused := func() bool { return c.Away() != nil && strings.Contains(c.Away().Error(), "connection refused") }
	polltest.Eventually(t, "the connection is refused", refused)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.WaitConnected(ctx); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want that the connection was refused", err)
	}
}
