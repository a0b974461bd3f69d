package bustest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startServer starts a server and returns when it is ready; one with routes may be ready only when the others are.
func startServer(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatalf("make a server: %v", err)
	}
	said := &complaints{}
	s.SetLoggerV2(said, false, false, false)
	s.Start()
	if len(o.Routes) == 0 && !s.ReadyForConnections(time.Minute) {
		t.Fatalf("the server is not ready after a minute; it said: %s", said)
	}
	return s
}

// complaints keeps the errors that a server logs, as the reason why it does not start.
type complaints struct {
	mu    sync.Mutex
	lines []string
}

func (c *complaints) add(format string, v []any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) < 20 {
		c.lines = append(c.lines, fmt.Sprintf(format, v...))
	}
}

func (c *complaints) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines, "; ")
}

func (c *complaints) Errorf(format string, v ...any) { c.add(format, v) }
func (c *complaints) Fatalf(format string, v ...any) { c.add(format, v) }
func (c *complaints) Warnf(string, ...any)           {}
func (c *complaints) Noticef(string, ...any)         {}
func (c *complaints) Debugf(string, ...any)          {}
func (c *complaints) Tracef(string, ...any)          {}
