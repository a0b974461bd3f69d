package registry

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/confirm"
	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// Signer signs what servers need to enter and to leave the fleet. *trust.Signer implements it.
type Signer interface {
	// Server signs the JWT of a server for the public key that it made.
	Server(publicKey, serverID, cell string, expires time.Time) (jwt string, err error)
	// Guest creates credentials that permit nothing but enrolment.
	Guest(serverID, cell string, expires time.Time) (trust.Guest, error)
	// TombstoneKey returns the public half of the key that signs tombstones; empty without one.
	TombstoneKey() string
	// Tombstone signs that a server is dead; it returns nil without a key.
	Tombstone(serverID, cell string, at time.Time) (*serverv1.Tombstone, error)
}

// DefaultBeatInterval is how often servers beat when nothing else is configured.
const DefaultBeatInterval = 5 * time.Second

// DefaultServerCredentials is how long the credentials of a server are valid when nothing else is
// configured.
const DefaultServerCredentials = 90 * 24 * time.Hour

// DefaultServerBudget is how many bytes of facts one server may cause in a day when nothing else is configured.
const DefaultServerBudget uint64 = intake.DefaultBudget

// LeastServerBudget is the smallest budget: a server that enrols, starts and is refreshed stays within it.
const LeastServerBudget = 64 << 10

// Config is what a registry is made of.
type Config struct {
	Conn         *bus.Conn
	Store        string // a directory for snapshots; empty means none
	AcceptLedger bool   // accept a ledger that lost facts, for this start
	Signer       Signer // nil means that no server can be invited or enrolled here
	JoinURL      string // where invited servers find the bus; part of every token
	// CA returns the CAs of the bus as PEM, of which servers learn; nil means those of their operating system.
	CA           func() ([]byte, error)
	Secrets      *secret.Key   // seals the secrets of metadata; nil means that none can be set
	Lobby        bool          // take requests of machines without a token, which an operator accepts or rejects
	ImageKeys    seal.Keys     // servers that enrol then install only images that one of these keys signed
	BeatInterval time.Duration // how often servers beat; 0 means DefaultBeatInterval
	// ServerCredentials is how long the credentials of a server are valid, which the server renews
	// after half of that time; 0 means DefaultServerCredentials.
	ServerCredentials time.Duration
	// ServerBudget is how many bytes of facts one server may cause in a day; 0 means DefaultServerBudget.
	ServerBudget uint64
	Debug        *debug.State     // takes what a debug socket shows; may be nil
	Metrics      *metrics.Set     // takes what is measured; may be nil
	Log          zerolog.Logger   // one line for each change
	Now          func() time.Time // nil means time.Now
	NewID        func() string    // nil means ident.New
}

// Registry is the service.
type Registry struct {
	cfg      Config
	follower *fold.Follower
	writer   *bus.Writer

	intents   *intents
	lookup    *intentLookup
	reports   *reports
	rechecks  *rechecks
	presence  *presenceWatch
	externals *externals
	duties    *duties
	defaults  *defaultsWork
	rollouts  *rolloutWork
	brakes    *brakes
	labels    *labelWork
	lobby     *lobbyDesk
	admission *admission
	unknown   *unknownServers
	records   *records
}

// New returns a registry that does nothing until Run.
func New(cfg Config) (*Registry, error) {
	if cfg.Conn == nil {
		return nil, fault.New(fault.Invalid, "registry: no connection")
	}
	if cfg.BeatInterval < 0 {
		return nil, fault.New(fault.Invalid, "registry: beat interval %v is negative", cfg.BeatInterval)
	}
	if cfg.BeatInterval == 0 {
		cfg.BeatInterval = DefaultBeatInterval
	}
	if cfg.ServerCredentials < 0 {
		return nil, fault.New(fault.Invalid, "registry: server credentials of %v", cfg.ServerCredentials)
	}
	if cfg.ServerCredentials == 0 {
		cfg.ServerCredentials = DefaultServerCredentials
	}
	if cfg.ServerBudget == 0 {
		cfg.ServerBudget = DefaultServerBudget
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = ident.New
	}
	r := &Registry{cfg: cfg}
	v := view.New()
	r.follower = fold.New(cfg.Conn, v, fold.Options{
		Service: ledger.Registry, Layout: view.Layout, Store: cfg.Store, Nouns: view.Nouns,
		AcceptLedger: cfg.AcceptLedger, Log: cfg.Log, OnFacts: r.onFacts,
	})
	r.writer = r.follower.NewWriter()
	r.compose(v)
	r.show(cfg.Debug)
	r.measure(cfg.Metrics, v)
	return r, nil
}

// show adds the view and the lengths of the queues to a debug state.
func (r *Registry) show(s *debug.State) {
	r.follower.Show(s)
	s.Set("queues", func() any { return r.queues() })
}

// compose makes the parts of the service.
func (r *Registry) compose(v *view.View) {
	log, signer := r.cfg.Log, tombstones{r.cfg.Signer}
	r.records = &records{
		view: v, follower: r.follower, now: r.cfg.Now, newID: r.cfg.NewID, budget: r.cfg.ServerBudget,
		secrets: r.cfg.Secrets,
		decider: decide.New(decide.Config{
			Service: ledger.Registry, Ledger: r.cfg.Conn, View: r.follower, Writer: r.writer,
			Now: r.cfg.Now, NewID: r.cfg.NewID,
		}),
	}
	r.lookup = &intentLookup{records: r.records, conn: r.cfg.Conn}
	r.intents = &intents{records: r.records, lookup: r.lookup, writer: r.writer, signer: signer, log: log}
	r.rechecks = newRechecks(r.records)
	r.reports = newReports(r.records, r.cfg.Conn, r.rechecks, log)
	r.unknown = &unknownServers{records: r.records, log: log}
	changes := &serverChanges{records: r.records, log: log}
	r.presence = &presenceWatch{
		records: r.records, conn: r.cfg.Conn, interval: r.cfg.BeatInterval, changes: changes,
		returns: topology.ServerReturns,
		epochs:  newEpochChecks(r.records, r.cfg.Conn, changes, log),
		unknown: r.unknown, reports: r.reports, log: log,
		refused: logs.NewPacer(), pace: pace.New(beatsASecond, time.Second), wake: wakeup.New(),
		last: map[string]presence.Beat{}, confirmed: confirm.New(),
	}
	r.externals = newExternals(r.records, log)
	r.duties = newDuties(r.records, signer, log)
	r.defaults = newDefaultsWork(r.records, log)
	r.rollouts = newRolloutWork(r.records, r.lookup, log)
	r.brakes = newBrakes(r.records, log)
	r.labels = newLabelWork(r.records, log)
	r.admission = &admission{
		records: r.records, signer: r.cfg.Signer, joinURL: r.cfg.JoinURL, ca: r.cfg.CA,
		imageKeys: r.cfg.ImageKeys, lasting: r.cfg.ServerCredentials,
		pace: pace.New(requestsAMinute, time.Minute), idle: pace.New(idleASecond, time.Second),
		refusals: logs.NewPacer(), log: log,
	}
	r.admission.pools = &pools{admission: r.admission}
	r.lobby = newLobbyDesk(r.admission, r.cfg.Lobby)
}

// Run serves until ctx is done or a part fails; a restart then recovers.
func (r *Registry) Run(ctx context.Context) error {
	return rungroup.Run(ctx,
		rungroup.Part{Name: "writer", Run: r.writer.Run},
		rungroup.Part{Name: "view", Run: r.follower.Run},
		rungroup.Part{Name: "service", Run: r.follower.WhenReady(r.serve)},
		rungroup.Part{Name: "intents", Run: r.consume(topology.RegistryIntents, r.intents.handle)},
		rungroup.Part{Name: "agents reports", Run: r.consume(topology.RegistryAgents, r.reports.handleAgents)},
		rungroup.Part{Name: "sysinfo reports", Run: r.consume(topology.RegistrySysinfo, r.reports.handleSysinfo)},
		rungroup.Part{Name: "receipts", Run: r.consume(topology.RegistryReceipt, r.reports.handleReceipt)},
		rungroup.Part{Name: "presence", Run: r.follower.WhenReady(r.presence.run)},
		rungroup.Part{Name: "duties", Run: r.follower.WhenReady(r.duties.run)},
		rungroup.Part{Name: "defaults", Run: r.follower.WhenReady(r.defaults.run)},
		rungroup.Part{Name: "rollouts", Run: r.follower.WhenReady(r.rollouts.run)},
		rungroup.Part{Name: "brakes", Run: r.follower.WhenReady(r.brakes.run)},
		rungroup.Part{Name: "labels", Run: r.follower.WhenReady(r.labels.run)},
		rungroup.Part{Name: "rechecks", Run: r.follower.WhenReady(r.runRechecks)},
	)
}

// Ready is closed when the registry knows everything that was in the ledger when it started.
func (r *Registry) Ready() <-chan struct{} { return r.follower.Ready() }

func (r *Registry) consume(from topology.Consumer, handle bus.Handler) func(context.Context) error {
	return r.follower.WhenReady(func(ctx context.Context) error { return r.cfg.Conn.Consume(ctx, from, handle) })
}

func (r *Registry) runRechecks(ctx context.Context) error {
	return r.rechecks.run(ctx, r.reports.recheck)
}

// onFacts receives the facts that were just folded. Duties only follow from facts about tasks,
// servers and instances.
func (r *Registry) onFacts(facts []ledger.Fact) {
	r.rechecks.noteFacts(facts)
	r.defaults.noteFacts(facts)
	r.rollouts.noteFacts(facts)
	r.brakes.noteFacts(facts)
	r.labels.noteFacts(facts)
	for _, f := range facts {
		switch f.Noun {
		case ledger.Task, ledger.Server, ledger.Instance:
			r.duties.wake.Wake()
			return
		}
	}
}
