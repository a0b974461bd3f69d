// Package renewal keeps the credentials of a server from expiring.
//
// Guarantees:
//
//  1. Credentials are renewed after half of their time, a little later on some servers than on
//     others; at once when that time has passed. A failed attempt is repeated, more often as the end
//     comes near.
//  2. The next credentials are on the disk before the connection uses them. Nothing waits for a
//     renewal and nothing is lost by one: the connection is made anew as after any disconnect.
//  3. Without a renewal the executor only waits: its agents keep running.
package renewal

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

const (
	// spreadPart is the part of the lifetime over which a fleet's renewals are spread.
	spreadPart = 10
	// spreadEndless is over how long the first renewals of credentials without an end are spread.
	spreadEndless = time.Hour
	retryFirst    = time.Second
	retryLongest  = time.Hour
	// lookEvery is how often the clock is compared with the time of the renewal: it may be set, and a
	// machine may sleep.
	lookEvery = time.Minute
)

// Renewal renews the credentials under Root.
type Renewal struct {
	Root layout.Root
	Conn *bus.Conn
	Log  zerolog.Logger
}

// Run renews the credentials whenever that is due, until ctx is done.
func (r *Renewal) Run(ctx context.Context) error {
	spread, started := rand.Float64(), time.Now()
	for failed := 0; ; {
		who, err := identity.Read(r.Root)
		from, until := trust.Times(who.JWT)
		due := Due(from, until, started, spread)
		if failed > 0 {
			due = time.Now().Add(retry(failed, time.Until(until)))
		}
		if err := sleepUntil(ctx, due); err != nil {
			return err
		}
		if err == nil {
			err = r.renew(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			failed = 0
			continue
		}
		if failed++; failed == 1 {
			r.Log.Warn().Err(err).Time("expires_at", until).Msg("credentials not renewed yet")
		}
	}
}

// Due returns when credentials of a period are to be renewed. spread, from 0 to 1, is this server's
// place among all. A zero until is no end; such credentials are renewed soon after the start.
func Due(from, until, started time.Time, spread float64) time.Time {
	if until.IsZero() {
		return started.Add(time.Duration(spread * float64(spreadEndless)))
	}
	lifetime := until.Sub(from)
	return from.Add(lifetime/2 + time.Duration(spread*float64(lifetime/spreadPart)))
}

// retry returns how long to wait after attempts that failed; left is what is left of the credentials.
func retry(failed int, left time.Duration) time.Duration {
	longest := retryLongest
	if left > 0 {
		longest = min(longest, max(left/spreadPart, retryFirst))
	}
	wait := min(longest, retryFirst<<min(failed, 20))
	return wait/2 + rand.N(wait)
}

// sleepUntil waits until the clock shows a time.
func sleepUntil(ctx context.Context, at time.Time) error {
	for {
		wait := at.Round(0).Sub(time.Now().Round(0)) // by the wall clock
		if wait <= 0 {
			return ctx.Err()
		}
		if err := wakeup.Pause(ctx, min(wait, lookEvery)); err != nil {
			return err
		}
	}
}

// renew requests the next credentials, keeps them and connects with them.
func (r *Renewal) renew(ctx context.Context) error {
	if err := r.Conn.WaitConnected(ctx); err != nil {
		return err
	}
	who, err := identity.Read(r.Root)
	if err != nil {
		return err
	}
	key, err := identity.PublicKey(r.Root)
	if err != nil {
		return err
	}
	answer, err := bus.Ask[*registryv1.RenewResponse](ctx, r.Conn, topology.RenewSubject(who.Address()),
		&registryv1.RenewRequest{ServerId: who.ServerID, PublicKey: key})
	if err != nil {
		return err
	}
	if err := identity.Renew(r.Root, key, answer.GetUserJwt(), answer.GetBusCa()); err != nil {
		return err
	}
	_, until := trust.Times(answer.GetUserJwt())
	r.Log.Info().Time("expires_at", until).Msg("credentials renewed")
	return r.Conn.Reconnect()
}
