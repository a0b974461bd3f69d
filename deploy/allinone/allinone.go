package allinone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Config says where a Garrison keeps its data and listens.
type Config struct {
	Data     string   // the data directory; made if it is not there
	Listen   string   // host:port; port 0 means a free one, chosen once and kept
	Services []string // which services run in this process; nil means all
	Lazy     bool     // do not sync each write to disk: for trying it out
	// AcceptLedger takes a ledger that lost facts as it is, for this start.
	AcceptLedger bool
	ImageKeys    seal.Keys      // an image must be signed by one of them; none means that it need not be signed
	Log          zerolog.Logger // what changed
	Tuning       Tuning
}

// Tuning is what tests and benchmarks set; zero values mean the services' own defaults.
type Tuning struct {
	BeatInterval time.Duration // how often servers beat
	TaskDeadline time.Duration // how long a task may take once it is assigned
	Concurrency  int           // how many tasks are under way at once
}

// Garrison is a Garrison in one process.
type Garrison struct {
	config    Config
	authority *trust.Authority
	lock      *os.File
	server    *server.Server
	url       string
	parts     []lifecycle.Part
	conns     []*bus.Conn
	store     *storeWatch
}

// Start makes the keys if there are none, starts the embedded server, provisions the
// streams and makes the services. Run must be called to run them, and Close at the end.
func Start(ctx context.Context, c Config) (*Garrison, error) {
	if c.Services == nil {
		c.Services = topology.Services
	}
	g := &Garrison{config: c}
	g.store = &storeWatch{dir: c.Data, log: g.logger("bus"), every: storeEvery, free: freeAt, trouble: g.trouble}
	if err := g.start(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Garrison) start(ctx context.Context) (err error) {
	have, err := checkData(g.config.Data)
	if err != nil {
		return err
	}
	if _, err := trust.ReadContext(g.ContextFile()); fault.Is(err, fault.Invalid) && !errors.Is(err, trust.ErrDamaged) {
		return err // of a newer program
	}
	if err := os.MkdirAll(filepath.Join(g.config.Data, "views"), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if g.lock, err = lock(filepath.Join(g.config.Data, "lock")); err != nil {
		return err
	}
	if g.authority, err = trust.OpenAuthority(filepath.Join(g.config.Data, "trust")); err != nil {
		return err
	}
	if err := adoptData(g.config.Data, have); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	if err := g.checkRoom(); err != nil {
		return err
	}
	if err := g.startBus(); err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	if err := g.writeContext(); err != nil {
		return err
	}
	provision, err := g.dial(topology.UserProvision)
	if err != nil {
		return err
	}
	if err := provision.Provision(ctx, topology.Bus{Replicas: 1, SyncsAlways: !g.config.Lazy}); err != nil {
		return err
	}
	for _, name := range g.config.Services {
		if err := g.addService(name); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

// URL gives where servers and operators connect.
func (g *Garrison) URL() string { return g.url }

// ContextFile gives the file with the first operator's context.
func (g *Garrison) ContextFile() string { return filepath.Join(g.config.Data, "operator.json") }

// Authority gives the keys, for tests that need credentials of their own.
func (g *Garrison) Authority() *trust.Authority { return g.authority }

// Run runs the services until ctx is done or one of them cannot go on. ErrStore means
// that a Garrison started anew would go on.
func (g *Garrison) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, append(slices.Clone(g.parts), lifecycle.Part{Name: "bus", Run: g.store.run})...)
}

// Close disconnects the services and stops the bus.
func (g *Garrison) Close() {
	for _, c := range g.conns {
		c.Close()
	}
	if g.server != nil {
		g.server.Shutdown()
		g.server.WaitForShutdown()
	}
	if g.lock != nil {
		_ = g.lock.Close()
	}
}

// dial connects a service to the embedded server, with the service's own credentials.
func (g *Garrison) dial(name string) (*bus.Conn, error) {
	c, err := bus.Dial(bus.Options{
		InProcess:   g.server,
		Credentials: trust.ReadCredentials(g.authority.ServiceCredentials(name)),
		Name:        name,
		Log:         g.logger(name),
	})
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

func (g *Garrison) logger(service string) zerolog.Logger {
	return g.config.Log.With().Str("service", service).Logger()
}

// writeContext makes the first operator's credentials, once, and keeps the address in
// them true. Damaged ones are made anew: the keys that sign them are here, and those that
// were in the file stay valid for whoever has a copy.
func (g *Garrison) writeContext() error {
	c, err := trust.ReadContext(g.ContextFile())
	switch {
	case errors.Is(err, trust.ErrDamaged):
		log := g.logger("bus")
		log.Warn().Err(err).Msg("operator's context is made anew")
		fallthrough
	case errors.Is(err, os.ErrNotExist):
		if c, err = g.authority.Person("operator", topology.Admin, g.url, time.Time{}); err != nil {
			return err
		}
	case err != nil:
		return err
	case c.URL == g.url:
		return nil
	}
	c.URL = g.url
	return c.Write(g.ContextFile())
}

// ParseServices reads a comma-separated list of services; "all" means all and "none" means only the bus.
func ParseServices(s string) ([]string, error) {
	switch s {
	case "all":
		return topology.Services, nil
	case "none":
		return []string{}, nil
	}
	out := strings.Split(s, ",")
	for _, name := range out {
		if !slices.Contains(topology.Services, name) {
			return nil, fmt.Errorf("there is no service %q (want all, none, or some of %s)", name, strings.Join(topology.Services, ","))
		}
	}
	return out, nil
}
