// Package allinone runs a whole Garrison in one process: an embedded nats-server with
// JetStream on disk, and the registry, the image-catalog, the task-dispatcher and access. Each
// service has its own constructor, connection and credentials, exactly as in a process of
// its own.
//
// A data directory holds everything:
//
//	format          the number of the directory's format; an older program refuses a newer one
//	trust/          keys, JWTs, credentials and the CA of the bus, mode 0600 (package trust)
//	jetstream/      the streams
//	views/          snapshots of the services' views, and how far each has read the ledger;
//	                without the latter the loss of the ledger's end is not detected
//	accounts/       the accounts of the bus, as the service access last changed them
//	operator.json   the context of the first operator, for garrison --context
//	address         the address it listens at, to be reachable at the same one after a restart;
//	                a damaged file is replaced by a new address
//	lock            held by the running process, so that two never share a directory
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

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/gateway"
)

// Config is what a Garrison in one process needs.
type Config struct {
	Data   string // the data directory; created if it is missing
	Listen string // host:port; port 0 means a free port, chosen once and kept
	// Advertise is the HOST or HOST:PORT that invited servers connect to; empty means Listen.
	Advertise string
	TLS       TLS
	HTTP      HTTP
	Cluster   Members  // that this one belongs to; none means that it is alone
	Services  []string // which services run in this process; nil means all
	Lazy      bool     // do not sync each write to disk: for trying it out
	// AcceptLedger accepts, for this start, a ledger that lost facts.
	AcceptLedger bool
	Audit        topology.CopyBounds // of the copy of the ledger; no bytes mean no copy
	Lobby        bool                // take machines without a token, which an operator accepts or rejects
	ImageKeys    seal.Keys           // one of them must have signed each image; without keys, images need no signature
	Log          zerolog.Logger      // one line for each change
	Tuning       Tuning
	Debug        *debug.State // takes what a debug socket shows; may be nil
	Metrics      *metrics.Set // takes what is measured; may be nil
}

// Tuning is what tests and benchmarks set; zero values mean the services' own defaults.
type Tuning struct {
	BeatInterval time.Duration // how often servers beat
	// ServerCredentials is how long the credentials of a server are valid.
	ServerCredentials time.Duration
	TaskDeadline      time.Duration // how long a task may be under way until that is learnt
	LeastDeadline     time.Duration // how long at least once it is
	MostDeadline      time.Duration // how long at most once it is
	Concurrency       int           // how many tasks are under way at once
	ServerBudget      uint64        // how many bytes of facts one server may cause in a day
	UserBudgets       budget.Limits // how many one user may
	BlockAfter        int           // on how many servers a build fails before it is blocked; 0 means never
}

// Garrison is a Garrison in one process.
type Garrison struct {
	config    Config
	authority *trust.Authority
	secrets   *secret.Key // of the registry and the task-dispatcher
	lock      *os.File
	server    *server.Server
	reserved  *reservation  // the address, until the server listens there
	routes    *reservation  // the address for the other members of a cluster, until the server listens there
	listening chan struct{} // closed once it does
	url       string        // for this host
	joinURL   string        // for other hosts
	certs     *certs
	// routeCerts is the certificate that members of a cluster show each other; nil in one that is alone.
	routeCerts  *certs
	parts       []rungroup.Part
	conns       []*bus.Conn
	provisioner *bus.Conn
	tail        *bus.Tail // on the provisioner, which is in the account of the ledger: no service can publish to it
	store       *storeWatch
	gateway     *gateway.Gateway // nil without one
}

// Start creates missing keys, starts the embedded server, provisions the streams and creates
// the services. The caller then calls Run, and Close at the end. Clients can connect once Run made the services ready.
func Start(ctx context.Context, c Config) (*Garrison, error) {
	if c.Services == nil {
		c.Services = topology.Services
	}
	g := &Garrison{config: c, listening: make(chan struct{})}
	g.store = &storeWatch{dir: c.Data, log: g.logger("bus"), every: storeEvery, free: freeAt, trouble: g.trouble}
	if err := g.start(ctx); err != nil {
		_ = g.Close() // the error before counts
		return nil, err
	}
	return g, nil
}

func (g *Garrison) start(ctx context.Context) error {
	if err := g.openData(); err != nil {
		return err
	}
	if err := g.startBus(ctx); err != nil {
		return fmt.Errorf("start the bus: %w", err)
	}
	if err := addGateway(g); err != nil {
		return err
	}
	g.certs.changed = g.writeContext
	if err := g.writeContext(); err != nil {
		return err
	}
	if err := g.provision(ctx); err != nil {
		return err
	}
	if len(g.config.Services) > 1 {
		var err error
		if g.tail, err = g.provisioner.NewTail(); err != nil {
			return err
		}
	}
	for _, name := range g.config.Services {
		if err := g.addService(name); err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

// provision declares the streams.
func (g *Garrison) provision(ctx context.Context) error {
	c, err := g.dial(topology.UserProvision)
	if err != nil {
		return err
	}
	g.provisioner = c
	s := bus.NewStreams(c)
	if len(g.config.Cluster) > 0 {
		return g.provisionCluster(ctx, s)
	}
	err = s.Provision(ctx, topology.Bus{Replicas: 1, SyncsAlways: !g.config.Lazy})
	if err == nil {
		err = provisionCopy(ctx, g, s, 1)
	}
	if r := fault.RefusalOf(err); r != nil && r.Code == code.BusMoved && len(g.config.Services) == 0 {
		log := g.logger("bus")
		log.Warn().Err(err).Msg("serving a bus that takes no writes, for garrisond grow")
		return nil
	}
	return err
}

// provisionCopy declares the copy of the ledger, or deletes it.
func provisionCopy(ctx context.Context, g *Garrison, s *bus.Streams, replicas int) error {
	to, err := g.dial(topology.UserProvisionCopy)
	if err != nil {
		return err
	}
	defer to.Close()
	return s.ProvisionCopy(ctx, bus.Copying{To: to, Bounds: g.config.Audit, Replicas: replicas})
}

// openData checks and locks the data directory, and opens the authority in it.
func (g *Garrison) openData() error {
	have, err := checkData(g.config.Data)
	if err != nil {
		return err
	}
	if err := g.checkMembership(); err != nil {
		return err
	}
	if _, err := trust.ReadContext(g.ContextFile()); fault.Is(err, fault.Invalid) && !errors.Is(err, trust.ErrDamaged) {
		return err // of a newer program
	}
	if err := strictdir.Make(filepath.Join(g.config.Data, "views"), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if g.lock, err = lock(filepath.Join(g.config.Data, "lock")); err != nil {
		return err
	}
	if g.authority, err = trust.OpenAuthority(g.trustDir()); err != nil {
		return err
	}
	if g.secrets, err = readSecretKey(g.authority); err != nil {
		return err
	}
	if err := adoptData(g.config.Data, have); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	return g.checkRoom()
}

// URL returns the address for clients on this host; of a cluster, those of its members.
func (g *Garrison) URL() string { return g.url }

// ReloadCertificates looks at once at the files and the CA that Run looks at every minute.
func (g *Garrison) ReloadCertificates() error { return g.certs.load() }

// ContextFile returns the path of the first operator's context.
func (g *Garrison) ContextFile() string { return filepath.Join(g.config.Data, "operator.json") }

// Authority returns the keys, for tests that need credentials of their own.
func (g *Garrison) Authority() *trust.Authority { return g.authority }

// Add adds parts of the process, which Run runs beside the services.
func (g *Garrison) Add(parts ...rungroup.Part) { g.parts = append(g.parts, parts...) }

// Run runs the services until ctx is done or one of them fails. ErrStore means that a new
// Start can succeed.
func (g *Garrison) Run(ctx context.Context) error {
	g.config.Debug.Set("bus", func() any { return orError(g.server.Varz(nil)) })
	g.config.Debug.Set("jetstream", func() any { return orError(g.server.Jsz(nil)) })
	g.measure()
	parts := append(slices.Clone(g.parts),
		rungroup.Part{Name: "bus", Run: g.store.run}, rungroup.Part{Name: "certificates", Run: g.certs.run},
		rungroup.Part{Name: "listener", Run: g.listen},
		rungroup.Part{Name: "silent connections", Run: func(ctx context.Context) error {
			return closeSilent(ctx, g.server, g.logger("bus"))
		}})
	if g.routeCerts != nil {
		parts = append(parts, rungroup.Part{Name: "certificates of routes", Run: g.routeCerts.run})
	}
	return rungroup.Run(ctx, parts...)
}

// orError returns a value, or the error of reading it.
func orError[T any](v T, err error) any {
	if err != nil {
		return err
	}
	return v
}

// stopWithin bounds the shutdown of the bus: after the restore of a stream was interrupted, nats-server 2.15.2 may not
// shut down at all.
const stopWithin = time.Minute

// Close disconnects the services and stops the bus. It returns an error when the bus did not stop: it may then still
// write to the data directory until the process ends.
func (g *Garrison) Close() (err error) {
	if g.gateway != nil {
		_ = g.gateway.Close()
	}
	for _, c := range g.conns {
		c.Close()
	}
	if g.server != nil {
		err = stop(g.server)
	}
	g.reserved.release()
	g.routes.release()
	if g.lock != nil {
		_ = g.lock.Close()
	}
	return err
}

// stop stops a bus within stopWithin.
func stop(s *server.Server) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Shutdown()
		s.WaitForShutdown()
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(stopWithin):
		return fmt.Errorf("the bus did not stop within %s", stopWithin)
	}
}

// dial connects a service to the embedded server, with the service's own credentials.
func (g *Garrison) dial(name string) (*bus.Conn, error) {
	c, err := bus.Dial(bus.Options{
		InProcess:   g.server,
		Credentials: trust.ReadCredentials(g.authority.ServiceCredentials(name)),
		Name:        name,
		API:         topology.APIOf(name),
		Log:         g.logger(name),
		Tail:        g.tail,
	})
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

func (g *Garrison) logger(service string) zerolog.Logger {
	return g.config.Log.With().Str("service", service).Logger()
}

// writeContext keeps the first operator's context, with the present address and CA. See operatorContext.
func (g *Garrison) writeContext() error {
	ca, err := g.certs.Bundle()
	if err != nil {
		return err
	}
	c, why, err := operatorContext(g.authority, g.ContextFile(), time.Now())
	if err != nil || why == "" && c.URL == g.url && c.CA == string(ca) && c.HTTP == savedHTTP(g) {
		return err
	}
	if why != "" {
		log := g.logger("bus")
		log.Info().Str(logs.Path, g.ContextFile()).Str(logs.Reason, why).Msg("operator's context written")
	}
	c.URL, c.CA, c.HTTP = g.url, string(ca), savedHTTP(g)
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
			return nil, fmt.Errorf("unknown service %q (want all, none, or some of %s)", name,
				strings.Join(topology.Services, ","))
		}
	}
	return out, nil
}
