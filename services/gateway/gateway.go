// Package gateway is the service that makes the control plane available over HTTP. It has no rights of its own, and no
// state on disk but that of webhooks (package webhook): each request acts on the bus with the credentials in its bearer
// token, or with those of the person who signed in to the console, so that the bus decides what the caller may do, and
// the ledger names the caller.
//
//	POST /garrison.SERVICE.v1.NAMEService/METHOD   the methods of the contract (package rpc)
//	GET  /events                                   the ledger as server-sent events (package stream)
//	GET, PUT /images/DIGEST                        the archives of images (package images)
//	GET  /openapi.json                             what is served, as OpenAPI 3.1
//	GET  /healthz                                  200 while the gateway serves
//	GET  /console/                                 pages for people (package console)
//
// Guarantees:
//
//  1. A request without a valid bearer token, or a session of the console, reaches no service. Its body is not read,
//     but for the form in which a person types a code.
//  2. A plain listener is reachable from this host only, unless the caller asked for that by name.
//  3. Headers, bodies, requests of one token, connections and each write to a client have bounds. A stream has none in
//     time: it ends with its client, with the rights of its actor, or with the gateway. A client without a valid token
//     takes no place of one that has a token.
//  4. A stop ends streams at once, and finishes other requests.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway/internal/actor"
	"github.com/garrison-fleet/garrison/services/gateway/internal/console"
	"github.com/garrison-fleet/garrison/services/gateway/internal/webhook"
)

const (
	// headersWithin and bodyWithin bound how long a client takes to send a request.
	headersWithin, bodyWithin = 10 * time.Second, 30 * time.Second
	// idleFor is how long a connection without a request stays open.
	idleFor = 2 * time.Minute
	// mostHeader bounds the headers of a request; a bearer token has less than 1 KiB.
	mostHeader = 16 << 10
	// mostAtOnce bounds the requests at once on one connection.
	mostAtOnce = 32
	// finishWithin is how long a gateway that stops has for requests that it has taken.
	finishWithin = 10 * time.Second
)

// Config configures the gateway. Listen and Bus are required.
type Config struct {
	Listen string      // host:port; port 0 means a free port
	TLS    *tls.Config // nil means plain HTTP
	Plain  bool        // allow plain HTTP on addresses that other hosts reach

	Bus func() (trust.Context, error) // the bus: its address and CA, without credentials
	// Issuers are the keys that sign users, where they are known; see package actor.
	Issuers []string

	Webhooks Webhooks // where facts are sent; the zero value means nowhere

	Metrics *metrics.Set // takes what is measured; may be nil
	Log     zerolog.Logger
	Now     func() time.Time // nil means time.Now
}

// Webhooks says where facts are sent.
type Webhooks struct {
	File string // the routes; empty means none
	Dir  string // for keys, places and dead letters
}

// Gateway is the service.
type Gateway struct {
	cfg      Config
	listener net.Listener
	door     *door
	actors   *actor.Pool
	console  *console.Console
	hooks    *webhook.Hooks // nil without any
	server   *http.Server
	stopping chan struct{} // closed when streams must end
}

// New listens. Requests are answered once Run runs. The caller calls Run, or Close.
func New(cfg Config) (*Gateway, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.TLS == nil && !cfg.Plain && !loopback(cfg.Listen) {
		return nil, fault.Refusef(fault.Invalid, code.PlainRefused,
			"other hosts reach %s, and plain HTTP would show them the bearer tokens", cfg.Listen).
			Try("--http 127.0.0.1:PORT")
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fault.New(fault.Invalid, "listen for HTTP: %w", err)
	}
	if cfg.TLS != nil {
		t := cfg.TLS.Clone()
		t.NextProtos = []string{"h2", "http/1.1"}
		listener = tls.NewListener(listener, t)
	}
	g := &Gateway{cfg: cfg, listener: listener, door: newDoor(), stopping: make(chan struct{})}
	g.actors = actor.NewPool(g.connect, cfg.Issuers, cfg.Now)
	g.console = console.New(console.Config{
		Actors: g.actors, Local: cfg.TLS == nil && !cfg.Plain, Now: cfg.Now, Log: cfg.Log,
		Known: func(r *http.Request) { g.door.known(r.Context()) },
	})
	cfg.Metrics.Add(metrics.HTTPRequests, 0, "ok") // known from the start
	cfg.Metrics.Gauge(metrics.HTTPTokens, func(context.Context) []metrics.Sample {
		return metrics.One(float64(g.actors.Len()))
	})
	g.server = &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: headersWithin, ReadTimeout: bodyWithin, IdleTimeout: idleFor,
		MaxHeaderBytes: mostHeader, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostAtOnce},
		ConnState: g.door.state, ConnContext: g.door.remember,
		Protocols: protocols(cfg.TLS != nil), ErrorLog: log.New(&complaints{cfg.Log, logs.NewPacer()}, "", 0),
	}
	if cfg.Webhooks.File != "" {
		g.hooks, err = webhook.New(webhook.Config{
			File: cfg.Webhooks.File, Dir: cfg.Webhooks.Dir, Connect: g.connect,
			Metrics: cfg.Metrics, Log: cfg.Log, Now: cfg.Now,
		})
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
	}
	g.server.RegisterOnShutdown(sync.OnceFunc(func() { close(g.stopping); g.door.closeStrangers() }))
	return g, nil
}

// protocols returns what the listener speaks: gRPC needs HTTP/2, with TLS or without.
func protocols(encrypted bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(encrypted)
	p.SetUnencryptedHTTP2(!encrypted)
	return p
}

// complaints logs what net/http says about connections, at most one line a minute: callers cause them.
type complaints struct {
	log   zerolog.Logger
	pacer *logs.Pacer
}

// Write implements io.Writer.
func (c *complaints) Write(line []byte) (int, error) {
	c.pacer.Warn(c.log, "http").Str(logs.Reason, strings.TrimSpace(string(line))).Msg("HTTP connection failed")
	return len(line), nil
}

// URL returns the address for clients on this host.
func (g *Gateway) URL() string {
	scheme := "http://"
	if g.cfg.TLS != nil {
		scheme = "https://"
	}
	return scheme + g.listener.Addr().String()
}

// Run serves until ctx is done.
func (g *Gateway) Run(ctx context.Context) error {
	g.cfg.Log.Info().Str("url", g.URL()).Msg("serving HTTP")
	parts := []rungroup.Part{
		{Name: "connections", Run: g.actors.Run, Base: true},
		{Name: "http", Run: g.serve},
	}
	if g.hooks != nil {
		parts = append(parts, rungroup.Part{Name: "webhooks", Run: g.hooks.Run})
	}
	return rungroup.Run(ctx, parts...)
}

// Close stops listening, and releases the directory of webhooks.
func (g *Gateway) Close() error {
	if g.hooks != nil {
		return errors.Join(g.hooks.Close(), g.server.Close())
	}
	return g.server.Close()
}

// serve answers requests until ctx is done.
func (g *Gateway) serve(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- g.server.Serve(g.listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer cancel()
	if err := g.server.Shutdown(finishing); err != nil {
		return errors.Join(err, g.server.Close())
	}
	return nil
}

// connect connects an actor to the bus.
func (g *Gateway) connect(ctx context.Context, who trust.Context) (*client.Client, error) {
	at, err := g.cfg.Bus()
	if err != nil {
		return nil, err
	}
	at.Actor, at.JWT, at.Seed = who.Actor, who.JWT, who.Seed
	return client.Connect(ctx, client.Options{Context: at})
}

// loopback reports whether only this host reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && bus.IsLoopback(host)
}
