// Package access is the service that answers who may connect. It alone writes facts about users, and
// it alone tells the bus which keys to refuse.
//
// Guarantees:
//
//  1. What the bus refuses follows from the ledger and the time alone, so that several processes of
//     the service push the same, in any order.
//  2. A key is refused within about a second of the fact that shuts it out, on every server of the bus, and
//     its connections end. A bus that lost the list gets it again.
//  3. No private key of a user reaches the service: it signs public keys.
//  4. One server has three open connections at most; the newest beyond them are ended.
//  5. Every request is safe to repeat. Only a user who exists cannot be created again.
package access

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/version"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// View describes the service's view.
var View = fold.Spec{
	Service: ledger.Access, Layout: view.Layout, Nouns: view.Nouns, New: func() fold.View { return view.New() },
}

// Config configures the service. Conn, System and Issuer are required.
type Config struct {
	Conn         *bus.Conn              // as the service
	System       *bus.System            // as its user in the system account
	Issuer       *trust.Issuer          // signs users and accounts
	CA           func() ([]byte, error) // the CAs of the bus as PEM, which people learn; may be nil
	Store        string                 // a directory for snapshots of the view; empty means that none are kept
	AcceptLedger bool                   // accepts a ledger that lost facts, for this start
	Debug        *debug.State           // takes what a debug socket shows; may be nil
	Metrics      *metrics.Set           // takes what is measured; may be nil
	Log          zerolog.Logger
	Now          func() time.Time // nil means time.Now
	NewID        func() string    // nil means ident.New
}

// Access is the service.
type Access struct {
	cfg         Config
	view        *view.View
	follower    *fold.Follower
	writer      *bus.Writer
	decider     *decide.Decider
	pusher      *pusher
	connections *connections
	floods      *floods
	restored    *trust.Restored // the last restore of a backup, or nil

	revoking sync.Mutex // held while a user is revoked: two admins who revoke each other must not both be the other one
}

// New returns the service. Nothing happens until Run.
func New(cfg Config) (*Access, error) {
	if cfg.Conn == nil || cfg.System == nil || cfg.Issuer == nil {
		return nil, fault.New(fault.Invalid, "access: no connection, no system connection or no keys")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.NewID == nil {
		cfg.NewID = ident.New
	}
	restored, err := cfg.Issuer.Restored()
	if err != nil {
		return nil, err
	}
	a := &Access{cfg: cfg, view: view.New(), restored: restored}
	a.follower = fold.New(cfg.Conn, a.view, fold.Options{
		Service: ledger.Access, Layout: view.Layout, Store: cfg.Store, Nouns: view.Nouns,
		AcceptLedger: cfg.AcceptLedger, Log: cfg.Log, OnFacts: func([]ledger.Fact) { a.pusher.wake() },
	})
	a.writer = a.follower.NewWriter()
	a.decider = decide.New(decide.Config{
		Service: ledger.Access, Ledger: cfg.Conn, View: a.follower, Writer: a.writer, Now: cfg.Now, NewID: cfg.NewID,
	})
	a.floods = newFloods(cfg, a.view, a.follower)
	a.pusher = newPusher(cfg, a.view, a.follower)
	a.connections = newConnections(cfg, a.view, a.follower)
	a.pusher.restored, a.pusher.suspended = a.refuseRestored, a.floods.add
	a.floods.wake, a.floods.userOf = a.pusher.wake, a.connections.userOf
	a.follower.Show(cfg.Debug)
	cfg.Debug.Set("queues", func() any { return a.queues() })
	a.measure(cfg.Metrics)
	cfg.Debug.Set("accounts", a.pusher.show)
	cfg.Debug.Set("connections", a.connections.show)
	cfg.Debug.Set("floods", a.floods.show)
	return a, nil
}

// Run serves until ctx is done or a part fails.
func (a *Access) Run(ctx context.Context) error {
	return rungroup.Run(ctx,
		rungroup.Part{Name: "writer", Run: a.writer.Run, Base: true},
		rungroup.Part{Name: "view", Run: a.follower.Run, Base: true},
		rungroup.Part{Name: "accounts", Run: a.follower.WhenReady(a.pusher.run), Base: true},
		rungroup.Part{Name: "connections", Run: a.connections.run},
		rungroup.Part{Name: "floods", Run: a.floods.run},
		rungroup.Part{Name: "api", Run: a.follower.WhenReady(a.serve)},
	)
}

// Serving returns a channel that closes when every request is answered.
func (a *Access) Serving() <-chan struct{} { return a.follower.Serving() }

// serve answers requests until ctx is done.
func (a *Access) serve(ctx context.Context) error {
	if err := a.adopt(ctx); err != nil {
		return err
	}
	return a.follower.Serve(ctx, version.Version,
		accessv1.File_garrison_access_v1_access_service_proto.Services().ByName("AccessService"), a.handle)
}

func (a *Access) handle(s *bus.Service) error {
	return errors.Join(
		bus.Handle(s, "CreateUser", a.createUser),
		bus.Handle(s, "ListUsers", a.listUsers),
		bus.Handle(s, "RevokeUser", a.revokeUser),
		bus.Handle(s, "RenewSelf", a.renewSelf),
		bus.Handle(s, "ListSessions", a.listSessions),
		bus.Handle(s, "GetBus", a.getBus),
		bus.Handle(s, "GetRestored", a.getRestored),
		bus.Handle(s, "ConfirmRestored", a.confirmRestored),
	)
}
