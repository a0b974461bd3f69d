// Package webhook sends facts of the ledger to programs that listen over HTTP, such as Slack, PagerDuty and
// Alertmanager.
//
// Guarantees:
//
//  1. A route sends the facts that it selects in the order of the ledger, each at least once, across restarts, with
//     the id of the fact as its webhook-id. The queue is the ledger itself; a file of the route holds its place in it.
//  2. A delivery that its target does not take is tried again with growing pauses for a day, and is then a dead letter.
//     A target that is slow or away delays no other route.
//  3. Each delivery is signed as Standard Webhooks says, with ed25519 keys that stay on this host.
//  4. No route connects to an address of this host, of a private network or of a provider's metadata that it does not
//     allow; the address is checked at each connection. Redirects and proxies are not used.
//  5. The address of a target is a secret: no error, log, metric or file but that of the routes holds it.
//  6. What a route reads is what the user may read whose context the file of routes names.
package webhook

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// renewWithin bounds the renewal of the user's credentials, and renewEvery is how often it is tried.
const renewWithin, renewEvery = 30 * time.Second, time.Hour

// Config configures webhooks. File, Dir and Connect are required.
type Config struct {
	File    string // the routes
	Dir     string // for keys, places and dead letters
	Connect func(context.Context, trust.Context) (*client.Client, error)

	Metrics *metrics.Set // takes what is measured; may be nil
	Log     zerolog.Logger
	Now     func() time.Time
}

// Hooks sends facts.
type Hooks struct {
	cfg   Config
	pace  pace
	pacer *logs.Pacer
	lock  *os.File
	link  *link

	mu       sync.Mutex
	settings *settings
	refused  string // why the file cannot be used now; empty while it can
	runners  []*runner
}

// New reads the file of routes and the keys, and creates the first key. A file with faults has no routes until it is
// corrected: the control plane must start without it. The caller calls Run, or Close.
func New(cfg Config) (*Hooks, error) {
	h := &Hooks{cfg: cfg, pace: usual, pacer: logs.NewPacer()}
	h.settings = &settings{}
	if s, err := readFile(cfg.File); err != nil {
		h.refuse(err)
	} else {
		h.settings = s
	}
	var err error
	if h.lock, err = openDir(cfg.Dir); err != nil {
		return nil, err
	}
	if _, err := readKeys(cfg.Dir); err != nil {
		cfg.Log.Error().Err(err).Msg("webhooks wait for their keys")
	}
	h.link = &link{connect: h.connect}
	cfg.Metrics.Gauge(metrics.WebhookState, func(context.Context) []metrics.Sample { s, _ := h.samples(); return s })
	cfg.Metrics.Gauge(metrics.WebhookLag, func(context.Context) []metrics.Sample { _, s := h.samples(); return s })
	return h, nil
}

// Close releases what New took.
func (h *Hooks) Close() error { return h.lock.Close() }

// Run sends facts until ctx is done. It follows the file of routes; one with faults leaves the routes as they are.
func (h *Hooks) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		h.runRoutes(ctx)
	}
	return nil
}

// runRoutes runs the routes until the file of routes changes.
func (h *Hooks) runRoutes(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.mu.Lock()
	h.runners = nil
	for i := range h.settings.routes {
		r := &h.settings.routes[i]
		h.runners = append(h.runners, &runner{
			route: r, hooks: h, version: h.settings.digest, http: r.newClient(), state: cutOff, keptAt: h.cfg.Now(),
		})
		for _, result := range []string{"delivered", "failed", "dead"} {
			h.cfg.Metrics.Add(metrics.WebhookDeliveries, 0, r.name, result) // known from the start
		}
	}
	runners := h.runners
	h.mu.Unlock()
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() { r.run(ctx) })
	}
	renewed := time.Time{}
	for pause(ctx, h.pace.look) == nil && !h.reload() {
		if h.cfg.Now().Sub(renewed) >= renewEvery {
			renewed = h.cfg.Now()
			h.renew(ctx)
		}
	}
	cancel(errChanged)
	all.Wait()
	h.link.close() // the file may name another user now
}

// errChanged ends the routes when their file changed.
var errChanged = errors.New("the file of webhooks changed")

// reload reads the file of routes, and reports whether it changed.
func (h *Hooks) reload() bool {
	s, err := readFile(h.cfg.File)
	if err != nil {
		h.refuse(err)
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused = ""; s.digest == h.settings.digest {
		return false
	}
	h.settings = s
	h.cfg.Log.Info().Int("routes", len(s.routes)).Msg("webhooks read again")
	return true
}

// refuse notes that the file of routes cannot be used, and logs each cause once.
func (h *Hooks) refuse(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused != why.Error() {
		h.refused = why.Error()
		h.cfg.Log.Error().Err(why).Msg("file of webhooks refused; the routes stay as they are")
	}
}

// user reads the context of the user that reads the ledger.
func (h *Hooks) user() (trust.Context, error) {
	h.mu.Lock()
	file := h.settings.as
	h.mu.Unlock()
	return readUser(file)
}

func readUser(file string) (trust.Context, error) {
	if err := strictdir.Secret(file); err != nil {
		return trust.Context{}, err
	}
	return trust.ReadContext(file)
}

func (h *Hooks) connect(ctx context.Context) (*client.Client, error) {
	who, err := h.user()
	if err != nil {
		return nil, err
	}
	return h.cfg.Connect(ctx, who)
}

// renew renews the credentials of the user before they end.
func (h *Hooks) renew(ctx context.Context) {
	who, err := h.user()
	if err != nil || !client.RenewalDue(who, h.cfg.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	c, err := h.link.get(ctx)
	if err == nil {
		_, err = c.Renew(ctx, who)
	}
	if err != nil {
		h.cfg.Log.Warn().Err(err).Msg("credentials of webhooks not renewed")
	}
}

func (h *Hooks) console() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settings.console
}

func (h *Hooks) count(route, result string) {
	h.cfg.Metrics.Add(metrics.WebhookDeliveries, 1, route, result)
}

// samples returns the states and the lags of the routes.
func (h *Hooks) samples() (states, lags []metrics.Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runners {
		state, lag := r.samples(h.cfg.Now())
		states, lags = append(states, state), append(lags, lag)
	}
	if h.refused != "" {
		states = append(states, metrics.Sample{Value: 1, Labels: []string{"", refusedFile}})
	}
	return states, lags
}

// link is the connection that all routes share.
type link struct {
	connect func(context.Context) (*client.Client, error)

	mu sync.Mutex
	c  *client.Client // nil without one
}

// get returns the connection, which it makes when it is missing.
func (l *link) get(ctx context.Context) (*client.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c != nil {
		return l.c, nil
	}
	var err error
	l.c, err = l.connect(ctx)
	if err != nil {
		l.c = nil
	}
	return l.c, err
}

// drop closes a connection that cannot be used.
func (l *link) drop(c *client.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == c && c != nil {
		c.Close()
		l.c = nil
	}
}

func (l *link) close() {
	l.mu.Lock()
	c := l.c
	l.mu.Unlock()
	l.drop(c)
}
