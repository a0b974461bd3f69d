package bus_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
)

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A service that waits for its bus says so, and why: otherwise a wrong address or wrong
// credentials look like a process that hangs.
func TestWaitingForTheBusIsLoggedWithItsReason(t *testing.T) {
	var log lines
	c, err := bus.Dial(bus.Options{URL: "nats://127.0.0.1:1", Name: "registry", Log: zerolog.New(&log), Persist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bustest.Eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), "connection refused") })
}
