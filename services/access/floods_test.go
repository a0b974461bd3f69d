package access_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A server that sends without an end is refused within seconds, and another one is not.
func TestAServerThatSendsTooMuchIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	mad, other := w.server(), w.server()
	untouched := w.connect(other)
	c := w.bus.RawAs(t, mad.name, mad.jwt, mad.seed)
	c.Opts.AllowReconnect = false
	gone := make(chan struct{})
	c.SetClosedHandler(func(*nats.Conn) { close(gone) })
	subject := topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: mad.name})
	begun := time.Now()
	for open := true; open; {
		for range 100 {
			_ = c.Publish(subject, nil)
		}
		select {
		case <-gone:
			open = false
		case <-time.After(time.Millisecond):
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("its connection is still open after a minute")
		}
	}
	t.Logf("its connection ended after %v", time.Since(begun).Round(time.Millisecond))
	if w.letIn(mad) {
		t.Error("it is let in again at once")
	}
	select {
	case <-untouched.gone:
		t.Error("another server's connection ended, too")
	default:
	}
	if !w.letIn(other) {
		t.Error("another server is not let in")
	}
}
