package dispatcher

import (
	"context"
	"sync"
	"time"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

const (
	// clockBound is by how much a clock may differ from the bus's before code.ClockDiffers is logged.
	clockBound = 30 * time.Second
	// clockAge is how long a measurement is valid, except for the decision that a deadline passed.
	clockAge = time.Minute
	// maxClocks is how many servers with a differing clock are remembered.
	maxClocks = 10_000
)

// busClock measures the clock of the bus, which all dispatchers share. Deadlines are written and
// checked by it: a dispatcher whose own clock is an hour ahead would otherwise end what another one
// has just assigned.
type busClock struct {
	cfg Config

	mu       sync.Mutex
	ahead    time.Duration // of this process's clock
	measured time.Time     // zero before the first measurement
	differs  bool
	servers  map[string]bool // the servers whose clock is ahead
}

func newBusClock(cfg Config) *busClock { return &busClock{cfg: cfg, servers: map[string]bool{}} }

// now returns the time by the clock of the bus, from a measurement of at most that age. Its error
// means that the bus cannot be reached.
func (c *busClock) now(ctx context.Context, age time.Duration) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began := c.cfg.wall(); c.measured.IsZero() || began.Sub(c.measured) >= age {
		s, err := c.cfg.Conn.Stream(ctx, topology.Ledger)
		if err != nil {
			return time.Time{}, err
		}
		c.measured = c.cfg.wall()
		if !s.Now.IsZero() {
			c.ahead = began.Add(c.measured.Sub(began) / 2).Sub(s.Now)
		}
		c.logDifference()
	}
	return c.cfg.Now().Add(-c.ahead), nil
}

// logDifference logs when the clocks begin to differ, and when they agree again.
func (c *busClock) logDifference() {
	differs := c.ahead.Abs() > clockBound
	switch {
	case differs && !c.differs:
		c.cfg.Log.Warn().Str(logs.Code, code.ClockDiffers).Dur("ahead", c.ahead).
			Msg("this clock differs from that of the bus; deadlines count by the bus's")
	case !differs && c.differs:
		c.cfg.Log.Info().Dur("ahead", c.ahead).Msg("this clock agrees with that of the bus again")
	}
	c.differs = differs
}

// checkServer compares the time of a server's report with the time at which the bus stored it, and
// logs when the server's clock begins to be ahead. A report may have waited, so a clock that is
// behind cannot be detected.
func (c *busClock) checkServer(r *reportv1.Report, stored time.Time) {
	if r.GetAt() == nil || stored.IsZero() {
		return
	}
	server, ahead := r.ServerId, r.GetAt().AsTime().Sub(stored)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ahead <= clockBound:
		delete(c.servers, server)
	case !c.servers[server] && len(c.servers) < maxClocks:
		c.servers[server] = true
		c.cfg.Log.Warn().Str(logs.Code, code.ClockDiffers).Str(logs.Server, server).Dur("ahead", ahead).
			Msg("the server's clock is ahead of that of the bus")
	}
}
