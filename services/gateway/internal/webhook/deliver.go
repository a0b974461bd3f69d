package webhook

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
)

// pace is how often and for how long a route tries.
type pace struct {
	attempt     time.Duration // one attempt
	least, most time.Duration // bounds of the pause between two attempts, which doubles; a random part of it is waited
	longest     time.Duration // of a Retry-After that is obeyed
	giveUp      time.Duration // after which a delivery becomes a dead letter
	look        time.Duration // how often the files are looked at
}

var usual = pace{
	attempt: 20 * time.Second, least: time.Second, most: 10 * time.Minute, longest: time.Hour,
	giveUp: 24 * time.Hour, look: 2 * time.Second,
}

// How many facts that a route does not send may pass, and for how long, before its place is kept.
const passedUnkept, unkeptFor = 1000, 30 * time.Second

// The states of a route.
const (
	running  = "running"
	retrying = "retrying" // its target does not take a delivery
	disabled = "disabled" // its target answered that it is gone
	cutOff   = "cut-off"  // the bus, or the user that the file names, cannot be used

	refusedFile = "refused" // of the file of routes, without a route
)

// errDisabled ends a route until the file of routes changes.
var errDisabled = errors.New("the target is gone (HTTP 410)")

// runner delivers the facts of one route, in their order.
type runner struct {
	*route
	hooks   *Hooks
	version string // of the file of routes
	http    *http.Client
	lookup  lookup

	place  place
	known  bool // place is one
	unkept int
	keptAt time.Time

	mu      sync.Mutex
	state   string
	waiting time.Time // when the fact under way was stored; zero without one
}

// run delivers until ctx is done.
func (r *runner) run(ctx context.Context) {
	defer r.http.CloseIdleConnections()
	for wait := r.hooks.pace.least; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		begun := r.hooks.cfg.Now()
		err := r.once(ctx)
		if errors.Is(err, errDisabled) {
			r.set(disabled, time.Time{})
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			return
		}
		if r.hooks.cfg.Now().Sub(begun) > time.Minute {
			wait = r.hooks.pace.least
		}
		r.set(cutOff, time.Time{})
		r.hooks.pacer.Warn(r.hooks.cfg.Log, r.name).Str("route", r.name).AnErr(logs.Reason, err).
			Msg("webhook does not follow the ledger")
		_ = pause(ctx, wait)
	}
}

// once delivers from the kept place on until something ends it, and keeps the place. A place that cannot be read is not
// that of a new route: nothing is sent until it can.
func (r *runner) once(ctx context.Context) (err error) {
	if !r.known {
		if r.place, r.known, err = readPlace(r.hooks.cfg.Dir, r.name); err != nil {
			return err
		}
	}
	if r.place.DisabledBy == r.version {
		return errDisabled
	}
	err = r.follow(ctx)
	if r.known {
		err = errors.Join(err, r.keep())
	}
	return err
}

// follow delivers the facts behind the place.
func (r *runner) follow(ctx context.Context) error {
	c, err := r.hooks.link.get(ctx)
	if err != nil {
		return err
	}
	if err := r.begin(ctx, c); err != nil {
		return err
	}
	query := client.Query{After: r.place.position()}
	if len(r.filter.Nouns) == 1 {
		query.Noun = ledger.Noun(r.filter.Nouns[0])
	}
	r.set(running, time.Time{})
	for e, err := range c.Follow(ctx, query) {
		if reset, ok := errors.AsType[*client.ResetError](err); ok {
			return r.reset(ctx, c, reset)
		}
		if err == nil {
			err = r.take(ctx, c, e)
		}
		if fault.Is(err, fault.Denied) {
			r.hooks.link.drop(c) // the credentials ended, and the file may have new ones
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// begin finds the place of a new route: the end of the ledger, or where its file says.
func (r *runner) begin(ctx context.Context, c *client.Client) (err error) {
	if r.known {
		return nil
	}
	end := r.from
	if end == 0 {
		end, err = c.LedgerEnd(ctx)
	} else {
		end--
	}
	if err != nil {
		return err
	}
	r.place, r.known = place{Sequence: end}, true
	return r.keep()
}

// reset finds the place in a ledger that does not continue: behind the facts that are missing; in one that was set
// back, as by a restored backup, at the first fact that was stored after the last one that the route was done with.
func (r *runner) reset(ctx context.Context, c *client.Client, why *client.ResetError) error {
	next := why.Next
	if why.Next <= why.Last.Sequence && r.place.StoredAt.IsZero() {
		end, err := c.LedgerEnd(ctx)
		if err != nil {
			return err
		}
		next = end + 1
	} else if why.Next <= why.Last.Sequence {
		var err error
		if next, err = c.SequenceAt(ctx, r.place.StoredAt.Add(1)); err != nil {
			return err
		}
	}
	r.place.Sequence, r.place.ID = next-1, ""
	r.place.Resets++
	r.place.ResetAt = r.hooks.cfg.Now()
	return why
}

// take delivers a fact if the route sends it.
func (r *runner) take(ctx context.Context, c *client.Client, e client.Event) error {
	about, sends, err := r.selects(ctx, c, &r.lookup, e)
	if err != nil {
		return err
	}
	if sends {
		if err := r.deliver(ctx, e, about); err != nil {
			return err
		}
	}
	r.place.passed(e)
	if r.unkept++; sends || r.unkept >= passedUnkept || r.hooks.cfg.Now().Sub(r.keptAt) >= unkeptFor {
		return r.keep()
	}
	return nil
}

// keep writes the place.
func (r *runner) keep() error {
	r.unkept, r.keptAt = 0, r.hooks.cfg.Now()
	return r.place.write(r.hooks.cfg.Dir, r.name)
}

// deliver sends a fact until its target took it, or it is a dead letter.
func (r *runner) deliver(ctx context.Context, e client.Event, a about) error {
	m := messageOf(e, a, r.hooks.console())
	defer r.set(running, time.Time{})
	for wait := r.hooks.pace.least; ; wait = min(2*wait, r.hooks.pace.most) {
		keys, err := readKeys(r.hooks.cfg.Dir)
		if err != nil {
			return err // of this host, and not of the fact
		}
		r.wait(e.StoredAt)
		got, err := r.send(ctx, r.http, keys, r.hooks.pace.attempt, r.hooks.cfg.Now(), e, m)
		now := r.hooks.cfg.Now()
		switch {
		case err != nil:
			return r.bury(e, err.Error())
		case got.err == nil && got.status/100 == 2:
			r.place.succeeded(now)
			r.hooks.count(r.name, "delivered")
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		r.hooks.count(r.name, "failed")
		r.place.failed(e.StoredAt, now, got.trouble())
		r.hooks.pacer.Warn(r.hooks.cfg.Log, r.name).Str("route", r.name).Str(logs.Reason, got.trouble()).
			Msg("webhook was not delivered")
		switch {
		case got.status == http.StatusGone:
			r.place.DisabledBy = r.version
			return errDisabled
		case slices.Contains(hopeless, got.status):
			r.place.FailingSince = time.Time{} // the target works
			return r.bury(e, got.trouble())
		case !now.Before(r.place.deadline(e.StoredAt, r.hooks.pace.giveUp)):
			return r.bury(e, "given up: "+got.trouble())
		}
		r.set(retrying, e.StoredAt)
		if err := r.keep(); err != nil {
			return err
		}
		after := min(got.after, r.hooks.pace.longest)
		if err := pause(ctx, after+rand.N(wait)); err != nil {
			return err
		}
	}
}

// hopeless are the answers about the content of a request, which is the same at each attempt. Others, such as 401 and
// 404, are about the route: waiting for a corrected one loses nothing.
var hopeless = []int{
	http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge,
}

// send sends a fact once. An error means that it cannot be sent.
func (r *route) send(
	ctx context.Context, c *http.Client, keys []ed25519.PrivateKey, within time.Duration, at time.Time, e client.Event,
	m message,
) (answer, error) {
	q, body, err := r.request(e, m)
	if err != nil {
		return answer{}, err
	}
	sign(q.Header, keys, m.ID, at, body)
	return post(ctx, c, within, q, at), nil
}

// trouble says why a delivery failed.
func (a answer) trouble() string {
	if a.err != nil {
		return clean(a.err.Error())
	}
	if a.status/100 == 3 {
		return fmt.Sprintf("HTTP %d: redirects are not followed; correct the url", a.status)
	}
	return fmt.Sprintf("HTTP %d %s", a.status, http.StatusText(a.status))
}

// bury makes a dead letter of a fact.
func (r *runner) bury(e client.Event, why string) error {
	now := r.hooks.cfg.Now()
	err := bury(r.hooks.cfg.Dir, r.name, letter{
		Sequence: e.Sequence, ID: e.ID, Fact: string(e.Noun) + " " + e.Name(), Key: e.Key, At: now, Reason: clean(why),
	})
	if err != nil {
		return err
	}
	r.place.Dead++
	r.place.Error, r.place.ErrorAt, r.place.WaitingSince = clean(why), now, time.Time{}
	r.hooks.count(r.name, "dead")
	return nil
}

// set notes the state, and when the fact was stored that waits for its target.
func (r *runner) set(state string, waiting time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.waiting = state, waiting
}

// wait notes when the fact was stored that is under way.
func (r *runner) wait(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = since
}

// samples returns the state and the lag in seconds.
func (r *runner) samples(now time.Time) (state, lag metrics.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seconds := 0.0
	if !r.waiting.IsZero() {
		seconds = max(0, now.Sub(r.waiting).Seconds())
	}
	return metrics.Sample{Value: 1, Labels: []string{r.name, r.state}},
		metrics.Sample{Value: seconds, Labels: []string{r.name}}
}

// pause waits for d, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
