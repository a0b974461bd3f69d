package registry

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// Signer admits servers. *trust.Signer is one.
type Signer interface {
	// Server signs the JWT of a server for the public key that it made.
	Server(publicKey, serverID, cell string) (jwt string, err error)
	// Guest makes credentials that can do nothing but enrol.
	Guest(serverID, cell string, expires time.Time) (jwt string, seed []byte, err error)
	// TombstoneKey gives the public half of the key that signs tombstones, or nothing.
	TombstoneKey() string
	// Tombstone signs that a server is dead; nil without a key for it.
	Tombstone(serverID, cell string, at time.Time) (*serverv1.Tombstone, error)
}

// DefaultBeatInterval is how often servers beat when nothing else is configured.
const DefaultBeatInterval = 5 * time.Second

// Config is what a registry is made of.
type Config struct {
	Conn         *bus.Conn
	Store        string           // a directory for snapshots; empty means none
	AcceptLedger bool             // takes a ledger that lost facts as it is, for this start
	Signer       Signer           // nil means that no server can be invited or enrolled here
	JoinURL      string           // where invited servers find the bus; part of every token
	ImageKeys    seal.Keys        // told to servers that enrol, which then take only images that one of them signed
	BeatInterval time.Duration    // how often servers beat; 0 means DefaultBeatInterval
	Log          zerolog.Logger   // what changed
	Now          func() time.Time // nil means time.Now
	NewID        func() string    // nil means ident.New
}

// Registry is the service.
type Registry struct {
	Config
	view     *view.View
	follower *fold.Follower
	writer   *bus.Writer
	due      chan struct{} // rings when a duty may be due
	stir     chan struct{} // rings when a presence may have changed

	heardMu sync.Mutex
	heard   map[string]server.Heard // the last beat of each managed server, by id
	settled map[string]time.Time    // when the ledger was last asked about a server's history, by id

	listening time.Time // since when beats are heard; set before they are

	unknownMu sync.Mutex
	unknown   unknowns // who beats and is not under management

	reportsMu sync.Mutex
	reports   map[series]place // the last report that was handled

	unrecordedMu sync.Mutex
	unrecorded   map[string]duty.Unrecorded // why what is due about a server could not be recorded, by its id

	againMu sync.Mutex
	again   map[string]struct{} // ids of the servers whose last report is to be looked at again
}

// New makes a registry. Nothing happens until Run.
func New(c Config) (*Registry, error) {
	if c.Conn == nil {
		return nil, fault.New(fault.Invalid, "registry: no connection")
	}
	if c.BeatInterval < 0 {
		return nil, fault.New(fault.Invalid, "registry: beat interval %v is negative", c.BeatInterval)
	}
	if c.BeatInterval == 0 {
		c.BeatInterval = DefaultBeatInterval
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = ident.New
	}
	r := &Registry{
		Config: c, view: view.New(),
		due: make(chan struct{}, 1), stir: make(chan struct{}, 1),
		heard: map[string]server.Heard{}, settled: map[string]time.Time{}, reports: map[series]place{}, again: map[string]struct{}{},
		unrecorded: map[string]duty.Unrecorded{},
	}
	r.follower = fold.New(c.Conn, r.view, fold.Options{
		Service: ledger.Registry, Layout: view.Layout, Store: c.Store, Nouns: view.Nouns,
		AcceptLedger: c.AcceptLedger, Log: c.Log, OnFacts: r.onFacts,
	})
	r.writer = r.follower.NewWriter()
	return r, nil
}

// Run serves until ctx is done or something breaks that a restart must heal.
func (r *Registry) Run(ctx context.Context) error {
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "writer", Run: r.writer.Run},
		lifecycle.Part{Name: "view", Run: r.follower.Run},
		lifecycle.Part{Name: "service", Run: r.whenReady(r.serve)},
		lifecycle.Part{Name: "intents", Run: r.whenReady(r.consume(topology.RegistryIntents, r.handleIntent))},
		lifecycle.Part{Name: "agents reports", Run: r.whenReady(r.consume(topology.RegistryAgents, r.handleAgents))},
		lifecycle.Part{Name: "sysinfo reports", Run: r.whenReady(r.consume(topology.RegistrySysinfo, r.handleSysinfo))},
		lifecycle.Part{Name: "receipts", Run: r.whenReady(r.consume(topology.RegistryReceipt, r.handleReceipt))},
		lifecycle.Part{Name: "presence", Run: r.whenReady(r.watchPresence)},
		lifecycle.Part{Name: "duties", Run: r.whenReady(r.doDuties)},
		lifecycle.Part{Name: "looks at last reports", Run: r.whenReady(r.lookAgain)},
	)
}

// Ready is closed when the registry knows everything that was in the ledger when it started.
func (r *Registry) Ready() <-chan struct{} { return r.follower.Ready() }

// whenReady waits for the view before it runs f: a decision on half a view would be wrong.
func (r *Registry) whenReady(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-r.follower.Ready():
			return f(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Registry) consume(from topology.Consumer, handle bus.Handler) func(context.Context) error {
	return func(ctx context.Context) error { return r.Conn.Consume(ctx, from, handle) }
}

// onFacts hears what was just folded. Duties only follow from facts about tasks,
// servers and instances; the rest need not wake anybody for them.
func (r *Registry) onFacts(facts []ledger.Fact) {
	r.rememberFound(facts)
	for _, f := range facts {
		switch f.Noun {
		case ledger.Task, ledger.Server, ledger.Instance:
			ring(r.due)
			return
		}
	}
}

// ring rings a bell that may be ringing already.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
