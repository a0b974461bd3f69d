package dispatcher

import (
	"context"
	"sync"
	"time"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Deadlines are written and judged by the clock of the bus, which all dispatchers share. One
// whose own clock is an hour ahead would otherwise end what another one has just assigned.

const (
	// CodeClockDiffers says that the clock of this dispatcher and that of the bus differ.
	CodeClockDiffers = "CLOCK_DIFFERS"
	// clockBound is by how much they may differ before it is logged.
	clockBound = 30 * time.Second
	// clockAge is how long a measurement is good for, but for ending a task.
	clockAge = time.Minute
)

// maxClocks is how many servers' clocks are remembered to differ.
const maxClocks = 10_000

// busClock is what is known of the clock of the bus, and of those of servers.
type busClock struct {
	mu       sync.Mutex
	ahead    time.Duration // of this process's clock
	measured time.Time     // by the monotonic clock; zero when it was not yet
	differs  bool
	servers  map[string]bool // whose clock is ahead
}

// busNow returns the time by the clock of the bus, from a measurement of at most that age.
// An error says that the bus cannot be asked.
func (d *Dispatcher) busNow(ctx context.Context, age time.Duration) (time.Time, error) {
	c := &d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measured.IsZero() || time.Since(c.measured) >= age {
		began, own := time.Now(), d.wall()
		s, err := d.Conn.Stream(ctx, topology.Ledger)
		if err != nil {
			return time.Time{}, err
		}
		c.measured = time.Now()
		if !s.Now.IsZero() {
			c.ahead = own.Add(c.measured.Sub(began) / 2).Sub(s.Now)
		}
		d.noteClock()
	}
	return d.Now().Add(-c.ahead), nil
}

// noteClock logs when the clocks begin to differ, and when they agree again.
func (d *Dispatcher) noteClock() {
	c := &d.clock
	differs := c.ahead.Abs() > clockBound
	switch {
	case differs && !c.differs:
		d.Log.Warn().Str(logs.Code, CodeClockDiffers).Dur("ahead", c.ahead).
			Msg("this clock differs from that of the bus; deadlines count by the bus's")
	case !differs && c.differs:
		d.Log.Info().Dur("ahead", c.ahead).Msg("this clock agrees with that of the bus again")
	}
	c.differs = differs
}

// hearClock compares the time that a server gave its report with the time at which the bus
// stored it, and logs when the server's clock begins to be ahead. A report may have waited,
// so that a clock is behind cannot be told from it.
func (d *Dispatcher) hearClock(server string, r *reportv1.Report, stored time.Time) {
	if r.GetAt() == nil || stored.IsZero() {
		return
	}
	ahead := r.GetAt().AsTime().Sub(stored)
	c := &d.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ahead <= clockBound:
		delete(c.servers, server)
	case !c.servers[server] && len(c.servers) < maxClocks:
		if c.servers == nil {
			c.servers = map[string]bool{}
		}
		c.servers[server] = true
		d.Log.Warn().Str(logs.Code, CodeClockDiffers).Str(logs.Server, server).Dur("ahead", ahead).
			Msg("the server's clock is ahead of that of the bus")
	}
}
