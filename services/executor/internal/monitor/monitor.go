// Package monitor gathers the facts for the decision of package lifecycle while an executor
// runs.
//
// Guarantees:
//
//  1. The part that learns a fact reports it and does nothing else about it. However many
//     reports arrive, one decision follows, and only Run returns it.
//  2. The monitor is safe for concurrent use.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// ErrUninstall is what Run returns when the executor is to remove itself.
var ErrUninstall = errors.New("the executor is to remove itself")

// Config is what a monitor reads.
type Config struct {
	Identity identity.Identity
	Access   func() bus.Access // the state of the connection
	JWT      func() string     // as it is on the disk now
	// RefusedFor is how long a refusal of this server's beats holds without another one, while the bus is connected.
	RefusedFor time.Duration
	Log        zerolog.Logger
}

// Monitor holds the facts and the last outcome.
type Monitor struct {
	cfg    Config
	signal wakeup.Signal // a fact may have changed

	denied bus.Access // the refusal for which jwt was read; only the goroutine that decides uses both
	jwt    string

	mu        sync.Mutex
	facts     lifecycle.Facts
	doubt     string          // why the inventory is not trusted
	beside    string          // what is still here when everything that a dead server's inventory knew is gone
	read      lifecycle.Login // whether the streams that servers need exist
	tombstone *serverv1.Tombstone
	refusal   *apiv1.Refusal // of this server's beats, or nil
	refusedAt time.Time      // when the last one came
	outcome   lifecycle.Outcome
	since     time.Time
}

// New returns a monitor. Until the engine reports otherwise, agents are left and the inventory is trusted; the engine
// reports doubts before anything else.
func New(c Config) *Monitor {
	return &Monitor{
		cfg: c, signal: wakeup.New(), since: time.Now(), read: lifecycle.LoginIn,
		facts: lifecycle.Facts{
			Identity:  true,
			Ownership: c.Identity.Owner(),
			Instances: true,
			Inventory: lifecycle.InventoryTrusted,
		},
	}
}

// update changes the facts and wakes Run.
func (m *Monitor) update(change func()) {
	m.mu.Lock()
	change()
	m.mu.Unlock()
	m.signal.Wake()
}

// Document takes a document, and reports whether the executor may follow it.
func (m *Monitor) Document(d *desiredv1.Document) (follow bool) {
	who := m.cfg.Identity
	m.update(func() {
		if m.facts.Life != d.GetLife() {
			m.facts.Instances = true
		}
		m.facts.Life, m.tombstone = d.GetLife(), proto.CloneOf(d.GetTombstone())
		m.facts.Proof = lifecycle.CheckTombstone(d, who.ServerID, who.Cell, who.TombstoneKey)
		follow = lifecycle.MayFollow(m.facts)
	})
	return follow
}

// Tombstone returns the tombstone of the newest document.
func (m *Monitor) Tombstone() *serverv1.Tombstone {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tombstone
}

// Remaining takes what is left of the agents of a dead server.
func (m *Monitor) Remaining(r engine.Remains) {
	m.update(func() { m.facts.Instances, m.facts.Changes, m.beside = r.Instances > 0, r.Changes > 0, r.Beside })
}

// Inventory takes how far the inventory is trusted, and why no further.
func (m *Monitor) Inventory(trust lifecycle.Inventory, doubt string) {
	m.update(func() { m.facts.Inventory, m.doubt = trust, doubt })
}

// Doubt takes the engine's doubt about the inventory, or that it has none.
func (m *Monitor) Doubt(d engine.Doubt) {
	switch {
	case d.Why == "":
		m.Inventory(lifecycle.InventoryTrusted, "")
	case d.Empty:
		m.Inventory(lifecycle.InventoryNone, d.Why)
	default:
		m.Inventory(lifecycle.InventoryUntrusted, d.Why)
	}
}

// DocumentRead takes the result of an attempt to read the document.
func (m *Monitor) DocumentRead(err error) {
	m.update(func() {
		m.read = lifecycle.LoginIn
		if fault.Is(err, fault.Unavailable) {
			m.read = lifecycle.LoginNotProvisioned
		}
	})
}

// Refused takes the registry's refusal of this server's beats. It holds until none has come for a while. A server that
// was forgotten is unknown, too, so the first stays.
func (m *Monitor) Refused(r *apiv1.Refusal) {
	is := lifecycle.RefusalOf(r.GetCode())
	if is == lifecycle.RefusalNone {
		return
	}
	m.update(func() {
		was := lifecycle.RefusalOf(m.refusal.GetCode())
		if is != lifecycle.RefusalUnknown || was != lifecycle.RefusalRemoved {
			m.refusal = r
		}
		m.refusedAt = time.Now()
	})
}

// refusalNow returns the refusal that holds at a time. While the bus is away, no other one can come. It must run with
// the lock.
func (m *Monitor) refusalNow(a bus.Access, now time.Time) lifecycle.Refusal {
	last := m.refusedAt
	if a.Since.After(last) {
		last = a.Since
	}
	if a.Login == bus.LoginIn && now.Sub(last) > m.cfg.RefusedFor {
		m.refusal = nil
	}
	return lifecycle.RefusalOf(m.refusal.GetCode())
}

// History takes whether the newest document continues the applied one.
func (m *Monitor) History(v lineage.Relation) { m.update(func() { m.facts.History = histories[v] }) }

var histories = map[lineage.Relation]lifecycle.History{
	lineage.Behind: lifecycle.HistoryLost, lineage.Unproven: lifecycle.HistoryUnproven,
	lineage.Impossible: lifecycle.HistoryImpossible,
}

// pollEvery is how often Run reads the state of the connection, which has no notification.
const pollEvery = 200 * time.Millisecond

// Run decides whenever a fact may have changed. It returns ErrUninstall, or the error of ctx.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if _, o := m.Decide(); o.Action == lifecycle.Uninstall {
			return ErrUninstall
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.signal.C():
		case <-tick.C:
		}
	}
}

// Decide returns the facts as they are now, and the outcome.
func (m *Monitor) Decide() (lifecycle.Facts, lifecycle.Outcome) {
	a, jwt := m.cfg.Access(), ""
	if a.Login == bus.LoginDenied {
		jwt = m.deniedJWT(a)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.facts.Login, m.facts.Reachable = loginOf(a, jwt, m.read, time.Now()), a.Login == bus.LoginIn
	m.facts.Refusal = m.refusalNow(a, time.Now())
	facts := m.facts
	if m.beside != "" && facts.Inventory == lifecycle.InventoryTrusted {
		facts.Inventory = lifecycle.InventoryUntrusted
	}
	o := lifecycle.Decide(facts)
	if o != m.outcome {
		m.outcome, m.since = o, time.Now()
		line := m.cfg.Log.Warn()
		if o.Action == lifecycle.Work {
			line = m.cfg.Log.Info()
		}
		if try := lifecycle.Remedy(o.Code, m.cfg.Identity.ServerID); try != "" {
			line = line.Str("try", try)
		}
		line.Str(logs.State, o.Action.String()).Str(logs.Code, o.Code).Str(logs.Reason, o.Why()).
			Msg("lifecycle decision changed")
	}
	return m.facts, o
}

// Facts returns the facts of the last decision in words, and the decision.
func (m *Monitor) Facts() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.facts
	return map[string]any{
		"identity": f.Identity, "ownership": f.Ownership.String(), "life": f.Life.String(), "proof": f.Proof.String(),
		"history": f.History.String(), "login": f.Login.String(), "refusal": f.Refusal.String(),
		"reachable": f.Reachable, "instances": f.Instances,
		"changes": f.Changes, "inventory": f.Inventory.String(), "doubt": m.doubt, "beside": m.beside,
		"action": m.outcome.Action.String(), "code": m.outcome.Code, "since": m.since,
	}
}

// deniedJWT returns the JWT with which the server was refused. It reads the file once for each
// login attempt, not at each decision about the same answer.
func (m *Monitor) deniedJWT(a bus.Access) string {
	if a != m.denied {
		m.denied, m.jwt = a, m.cfg.JWT()
	}
	return m.jwt
}

// logins maps what the bus says to the fact that follows without a closer look.
var logins = map[bus.Login]lifecycle.Login{
	bus.LoginPending:    lifecycle.LoginPending,
	bus.LoginStarting:   lifecycle.LoginStarting,
	bus.LoginExpired:    lifecycle.LoginExpired,
	bus.LoginRevoked:    lifecycle.LoginRevoked,
	bus.LoginUnreadable: lifecycle.LoginUnreadable,
	bus.LoginOther:      lifecycle.LoginOther,
	bus.LoginUntrusted:  lifecycle.LoginUntrusted,
}

// loginOf returns the result of a login. The bus sends the same answer for most refusals; the
// validity period of the server's own JWT tells some of them apart.
func loginOf(a bus.Access, jwt string, read lifecycle.Login, now time.Time) lifecycle.Login {
	switch a.Login {
	case bus.LoginIn:
		return read
	case bus.LoginDenied:
		from, until := trust.Times(jwt)
		switch {
		case !until.IsZero() && !now.Before(until):
			return lifecycle.LoginExpired
		case now.Before(from):
			return lifecycle.LoginSkew
		}
		return lifecycle.LoginDenied
	}
	if login, ok := logins[a.Login]; ok {
		return login
	}
	return lifecycle.LoginAway
}

// Standing is an outcome with its history, for the status and the beats.
type Standing struct {
	Outcome lifecycle.Outcome
	Since   time.Time
	Access  bus.Access
	Detail  string // the particulars of the outcome's reason
}

// Why returns the reason with its particulars.
func (s Standing) Why() string {
	why := s.Outcome.Why()
	if why == "" || s.Detail == "" {
		return why + s.Detail
	}
	return why + ": " + s.Detail
}

// Standing returns the last outcome.
func (m *Monitor) Standing() Standing {
	a := m.cfg.Access()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Standing{Outcome: m.outcome, Since: m.since, Access: a}
	if lifecycle.OfInventory(m.outcome.Code) {
		s.Detail = cmp.Or(m.doubt, m.beside)
	} else if m.refusal != nil {
		s.Detail = "the registry refuses its beats and reports: " + m.refusal.GetCode() + ", " + m.refusal.GetMessage()
	}
	return s
}
