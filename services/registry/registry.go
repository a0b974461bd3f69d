// Package registry is the service that decides what is wanted on which server and records what is
// there. It decides intents, receives reports and beats, admits servers, and alone writes the nouns
// application, environment, agent, server, instance and intent.
//
// Its view is a fold over the ledger (internal/view). Each handler reads the view, decides in a pure
// package below internal, and records facts that are guarded by the sequences that the decision was
// made on (pkg/decide). Replicas share the work without talking to each other: of two that decide
// the same, one wins and the other decides again.
//
// What runs is below internal/serve, a package for each subject: intents, rollouts, servers, beats,
// reports, … All build on its package records, the view and what is recorded on decisions about it.
// The other packages below internal decide, without a bus, a clock or a log.
//
// Guarantees:
//
//  1. An intent with a readable subject is in the ledger exactly once, as accepted or refused,
//     whatever was killed and however many registries run.
//  2. A write is answered once the view of the answering replica holds it, and nothing is refused
//     on a view that lags behind the ledger. A list may lag, by milliseconds.
//  3. Only differences become facts: a report, a beat or a request that repeats what is recorded
//     writes nothing. The exception is the first sysinfo report that answers a refresh. What changes
//     too often waits, and a server that fills the ledger is quarantined (internal/intake).
//  4. A secret is shown once and only its hash is kept.
//  5. Every wait has a deadline, and every table in memory is bounded by the fleet.
package registry

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	tasknoun "github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/admission"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/beats"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/blocks"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/environments"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/instances"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/intents"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/labelrules"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reports"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/rollouts"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/servers"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// View describes the service's view.
var View = fold.Spec{
	Service: ledger.Registry, Layout: view.Layout, Nouns: view.Nouns, New: func() fold.View { return view.New() },
}

// DefaultBeatInterval is how often servers beat when nothing else is configured.
const DefaultBeatInterval = 5 * time.Second

// DefaultServerCredentials is how long the credentials of a server are valid when nothing else is
// configured.
const DefaultServerCredentials = 90 * 24 * time.Hour

// DefaultServerBudget is how many bytes of facts one server may cause in a day when nothing else is configured.
const DefaultServerBudget uint64 = budget.DefaultServer

// LeastServerBudget is the smallest budget: a server that enrols, starts and is refreshed stays within it.
const LeastServerBudget = 64 << 10

// DefaultUserBudget is how many bytes of facts one user may cause in a day when nothing else is configured.
const DefaultUserBudget uint64 = budget.DefaultUser

// DefaultReporterBudget is the same for the reports of external instances.
const DefaultReporterBudget uint64 = budget.DefaultReporter

// DefaultBlockAfter is on how many servers a build fails before it is blocked when nothing else is configured.
const DefaultBlockAfter = blocks.DefaultBlockAfter

// Signer signs what servers need to enter and to leave the fleet.
type Signer = signing.Signer

// Config is what a registry is made of.
type Config struct {
	Conn         *bus.Conn
	Store        string // a directory for snapshots; empty means none
	AcceptLedger bool   // accept a ledger that lost facts, for this start
	Signer       Signer // nil means that no server can be invited or enrolled here
	JoinURL      string // where invited servers find the bus; part of every token
	// CA returns the CAs of the bus as PEM, for servers that enrol; nil means those of their operating system.
	CA      func() ([]byte, error)
	Secrets *secret.Key // seals the secrets of metadata; nil means that none can be set
	// BlockAfter is on how many servers an image or a configuration fails before no intent brings it to another one; 0
	// means never. See DefaultBlockAfter.
	BlockAfter   int
	Lobby        bool          // take requests of machines without a token, which an operator accepts or rejects
	ImageKeys    seal.Keys     // servers that enrol then install only images that one of these keys signed
	BeatInterval time.Duration // how often servers beat; 0 means DefaultBeatInterval
	// ServerCredentials is how long the credentials of a server are valid, which the server renews
	// after half of that time; 0 means DefaultServerCredentials.
	ServerCredentials time.Duration
	// ServerBudget is how many bytes of facts one server may cause in a day; 0 means DefaultServerBudget.
	ServerBudget uint64
	// UserBudgets is how many bytes of facts one user may cause in a day; 0 means DefaultUserBudget and
	// DefaultReporterBudget.
	UserBudgets budget.Limits
	// TaskConcurrency is how many tasks the task-dispatcher has under way at once, on which forecasts rest; 0 means
	// tasknoun.DefaultConcurrency.
	TaskConcurrency int
	Debug           *debug.State     // takes what a debug socket shows; may be nil
	Metrics         *metrics.Set     // takes what is measured; may be nil
	Log             zerolog.Logger   // one line for each change
	Now             func() time.Time // nil means time.Now
	NewID           func() string    // nil means ident.New
}

// Registry is the service.
type Registry struct {
	cfg      Config
	follower *fold.Follower
	writer   *bus.Writer

	intents   *intents.Handler
	lookup    *intents.Lookup
	reports   *reports.Handler
	rechecks  *reports.Rechecks
	presence  *beats.Watch
	externals *instances.Externals
	duties    *servers.Duties
	defaults  *environments.Work
	rollouts  *rollouts.Work
	blocks    *blocks.Work
	brakes    *environments.Brakes
	labels    *labelrules.Work
	lobby     *admission.Lobby
	admission *admission.Desk
	unknown   *beats.Unknown
	records   *records.Records
}

// New returns a registry that does nothing until Run.
func New(cfg Config) (*Registry, error) {
	if cfg.Conn == nil {
		return nil, fault.New(fault.Invalid, "registry: no connection")
	}
	if cfg.BeatInterval < 0 {
		return nil, fault.New(fault.Invalid, "registry: beat interval %v is negative", cfg.BeatInterval)
	}
	cfg.TaskConcurrency = cmp.Or(cfg.TaskConcurrency, tasknoun.DefaultConcurrency)
	if cfg.BeatInterval == 0 {
		cfg.BeatInterval = DefaultBeatInterval
	}
	if cfg.BlockAfter < 0 {
		return nil, fault.New(fault.Invalid, "registry: builds are blocked after %d servers", cfg.BlockAfter)
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
	log, signer := r.cfg.Log, signing.Tombstones{Signer: r.cfg.Signer}
	r.records = &records.Records{
		View: v, Follower: r.follower, Now: r.cfg.Now, NewID: r.cfg.NewID, Budget: r.cfg.ServerBudget,
		Secrets: r.cfg.Secrets, Limits: r.cfg.UserBudgets, Signed: len(r.cfg.ImageKeys) > 0,
		Decider: decide.New(decide.Config{
			Service: ledger.Registry, Ledger: r.cfg.Conn, View: r.follower, Writer: r.writer,
			Now: r.cfg.Now, NewID: r.cfg.NewID,
			Allow: func(drafts []ledger.Draft) error { return v.Writers.Allow(r.cfg.UserBudgets, drafts, r.cfg.Now()) },
		}),
	}
	r.lookup = intents.NewLookup(r.records, r.cfg.Conn)
	r.intents = intents.New(r.records, r.lookup, r.writer, signer, log)
	r.rechecks = reports.NewRechecks(r.records, log)
	r.reports = reports.New(r.records, r.cfg.Conn, r.rechecks, log)
	r.unknown = beats.NewUnknown(r.records, log)
	r.presence = beats.New(r.records, r.cfg.Conn, r.cfg.BeatInterval, r.reports, r.unknown, log)
	r.externals = instances.NewExternals(r.records, log)
	r.duties = servers.NewDuties(r.records, signer, log)
	r.defaults = environments.NewWork(r.records, log)
	r.rollouts = rollouts.NewWork(r.records, r.lookup, r.presence.Unsettled, log)
	r.blocks = blocks.NewWork(r.records, r.cfg.BlockAfter, log)
	r.brakes = environments.NewBrakes(r.records, log)
	r.labels = labelrules.NewWork(r.records, log)
	r.admission = admission.New(r.records, admission.Config{
		Signer: r.cfg.Signer, JoinURL: r.cfg.JoinURL, CA: r.cfg.CA, ImageKeys: r.cfg.ImageKeys,
		Lasting: r.cfg.ServerCredentials,
	}, log)
	r.lobby = admission.NewLobby(r.admission, r.cfg.Lobby)
}

// Run serves until ctx is done or a part fails; a restart then recovers.
func (r *Registry) Run(ctx context.Context) error {
	return rungroup.Run(ctx,
		rungroup.Part{Name: "writer", Run: r.writer.Run, Base: true},
		rungroup.Part{Name: "view", Run: r.follower.Run, Base: true},
		rungroup.Part{Name: "service", Run: r.follower.WhenReady(r.serve)},
		rungroup.Part{Name: "intents", Run: r.consume(topology.RegistryIntents, r.intents.Handle)},
		rungroup.Part{Name: "agents reports", Run: r.consume(topology.RegistryAgents, r.reports.HandleAgents)},
		rungroup.Part{Name: "sysinfo reports", Run: r.consume(topology.RegistrySysinfo, r.reports.HandleSysinfo)},
		rungroup.Part{Name: "receipts", Run: r.consume(topology.RegistryReceipt, r.reports.HandleReceipt)},
		rungroup.Part{Name: "presence", Run: r.follower.WhenReady(r.presence.Run)},
		rungroup.Part{Name: "duties", Run: r.follower.WhenReady(r.duties.Run)},
		rungroup.Part{Name: "defaults", Run: r.follower.WhenReady(r.defaults.Run)},
		rungroup.Part{Name: "rollouts", Run: r.follower.WhenReady(r.rollouts.Run)},
		rungroup.Part{Name: "blocks", Run: r.follower.WhenReady(r.blocks.Run)},
		rungroup.Part{Name: "brakes", Run: r.follower.WhenReady(r.brakes.Run)},
		rungroup.Part{Name: "labels", Run: r.follower.WhenReady(r.labels.Run)},
		rungroup.Part{Name: "rechecks", Run: r.follower.WhenReady(r.runRechecks)},
	)
}

// Ready is closed when the registry knows everything that was in the ledger when it started.
func (r *Registry) Ready() <-chan struct{} { return r.follower.Ready() }

func (r *Registry) consume(from topology.Consumer, handle bus.Handler) func(context.Context) error {
	return r.follower.WhenReady(func(ctx context.Context) error { return r.cfg.Conn.Consume(ctx, from, handle) })
}

func (r *Registry) runRechecks(ctx context.Context) error {
	return r.rechecks.Run(ctx, r.reports.Recheck)
}

// onFacts receives the facts that were just folded.
func (r *Registry) onFacts(facts []ledger.Fact) {
	r.rechecks.NoteFacts(facts)
	r.defaults.NoteFacts(facts)
	r.rollouts.NoteFacts(facts)
	r.blocks.NoteFacts(facts)
	r.brakes.NoteFacts(facts)
	r.labels.NoteFacts(facts)
	r.duties.NoteFacts(facts)
}
