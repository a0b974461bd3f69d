package executor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// errUninstall ends a run whose executor is to remove itself. Only the judge returns it.
var errUninstall = errors.New("the executor is to remove itself")

// judge gathers the facts that decide what becomes of the executor, and asks package fate.
// Whoever knows a fact reports it here and does nothing else about it; however many
// reports come, one decision follows, and run is the only place that acts on it.
type judge struct {
	who    identity.Identity
	access func() bus.Access
	jwt    func() string // as it is on the disk now
	log    zerolog.Logger
	stir   chan struct{}

	refused bus.Access // the refusal for which the JWT was read, and the JWT; owned by who decides
	own     string

	mu        sync.Mutex
	facts     fate.Facts
	doubt     string     // why the inventory is not trusted
	beside    string     // what runs or lies here when all that a dead server's inventory knew is gone
	read      fate.Login // whether a connection finds what servers need
	tombstone *serverv1.Tombstone
	verdict   fate.Verdict
	since     time.Time
}

func (x *Executor) newJudge(who identity.Identity, access func() bus.Access, log zerolog.Logger) *judge {
	jwt := func() string {
		now, err := x.who()
		if err != nil {
			return ""
		}
		return now.JWT
	}
	return &judge{
		who: who, access: access, jwt: jwt, log: log, stir: make(chan struct{}, 1), since: time.Now(), read: fate.LoginIn,
		// Until it is told that no agent is left, or that the inventory is not trusted, which it is before anything else.
		facts: fate.Facts{Identity: true, Ownership: who.Owner(), Instances: true, Inventory: fate.InventoryTrusted},
	}
}

// believe hears a document and says whether it may be followed.
func (g *judge) believe(d *desiredv1.Document) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.wake()
	before := g.facts.Life
	g.facts.Life, g.tombstone = d.GetLife(), proto.CloneOf(d.GetTombstone())
	g.facts.Proof = proofOf(d, g.who)
	if g.facts.Life != before {
		g.facts.Instances = true
	}
	return fate.Believed(g.facts)
}

// proofOf says what a document's tombstone is worth to a server.
func proofOf(d *desiredv1.Document, who identity.Identity) fate.Proof {
	switch t := d.GetTombstone(); {
	case t == nil && (who.TombstoneKey == "" || d.GetLife() != serverv1.Life_LIFE_DEAD):
		return fate.ProofNone
	case t == nil:
		return fate.ProofMissing
	case who.TombstoneKey == "":
		return fate.ProofUnchecked
	case trust.CheckTombstone(t, who.TombstoneKey) != nil:
		return fate.ProofForged
	case t.GetServerId() != who.ServerID || t.GetCell() != who.Cell:
		return fate.ProofOther
	}
	return fate.ProofGood
}

// left hears what is left of the agents of a dead server.
func (g *judge) left(r engine.Remains) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.facts.Instances, g.facts.Duties, g.beside = r.Instances > 0, r.Changes > 0, r.Beside
	g.wake()
}

// doubted hears what keeps the inventory from being trusted, or that nothing does any more.
func (g *judge) doubted(d engine.Doubt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doubt = d.Why
	switch {
	case d.Why == "":
		g.facts.Inventory = fate.InventoryTrusted
	case d.Empty:
		g.facts.Inventory = fate.InventoryNone
	default:
		g.facts.Inventory = fate.InventoryUntrusted
	}
	g.wake()
}

// heard hears how the last reading of the document ended.
func (g *judge) heard(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read = fate.LoginIn
	if fault.Is(err, fault.Unavailable) {
		g.read = fate.LoginNotProvisioned
	}
	g.wake()
}

// notTaken hears why documents are not taken, or that they are.
func (g *judge) notTaken(v lineage.Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.facts.History = histories[v]
	g.wake()
}

var histories = map[lineage.Verdict]fate.History{
	lineage.Behind: fate.HistoryLost, lineage.Unproven: fate.HistoryUnproven,
}

func (g *judge) wake() {
	select {
	case g.stir <- struct{}{}:
	default:
	}
}

// judgeEvery is how often the login is looked at, of which nobody reports changes.
const judgeEvery = 200 * time.Millisecond

// run decides whenever something may have changed. It ends with errUninstall, or with ctx.
func (g *judge) run(ctx context.Context) error {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for {
		if g.decide().Fate == fate.Uninstall {
			return errUninstall
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.stir:
		case <-tick.C:
		}
	}
}

func (g *judge) decide() fate.Verdict {
	a, jwt := g.access(), ""
	if a.Login == bus.LoginDenied {
		jwt = g.ownJWT(a)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.facts.Login, g.facts.Reachable = loginOf(a, jwt, g.read, time.Now()), a.Login == bus.LoginIn
	now := g.facts
	if g.beside != "" && now.Inventory == fate.InventoryTrusted {
		now.Inventory = fate.InventoryUntrusted
	}
	v := fate.Decide(now)
	if v != g.verdict {
		g.verdict, g.since = v, time.Now()
		line := g.log.Warn()
		if v.Fate == fate.Work {
			line = g.log.Info()
		}
		line.Str(logs.State, v.Fate.String()).Str(logs.Code, v.Code).Str(logs.Reason, v.Why()).Msg("what becomes of the executor")
	}
	return v
}

// ownJWT gives the JWT with which the server was refused. Its file is read once for each
// try, and not each time that the same answer is looked at.
func (g *judge) ownJWT(a bus.Access) string {
	if a != g.refused {
		g.refused, g.own = a, g.jwt()
	}
	return g.own
}

// loginOf says how the bus takes a server. The bus gives one answer to most of whom it does
// not let in; what this server's own JWT says of its time tells some of them apart.
func loginOf(a bus.Access, jwt string, read fate.Login, now time.Time) fate.Login {
	switch a.Login {
	case bus.LoginIn:
		return read
	case bus.LoginPending:
		return fate.LoginPending
	case bus.LoginStarting:
		return fate.LoginStarting
	case bus.LoginExpired:
		return fate.LoginExpired
	case bus.LoginRevoked:
		return fate.LoginRevoked
	case bus.LoginUnreadable:
		return fate.LoginUnreadable
	case bus.LoginOther:
		return fate.LoginOther
	case bus.LoginDenied:
		from, until := trust.Times(jwt)
		switch {
		case !until.IsZero() && !now.Before(until):
			return fate.LoginExpired
		case now.Before(from):
			return fate.LoginSkew
		}
		return fate.LoginDenied
	}
	return fate.LoginAway
}

// standing is what the status says of the executor itself.
type standing struct {
	verdict fate.Verdict
	since   time.Time
	access  bus.Access
	detail  string // what the verdict's words leave out
}

// why returns the words for the verdict, with what they leave out.
func (s standing) why() string {
	if s.detail == "" {
		return s.verdict.Why()
	}
	return s.verdict.Why() + ": " + s.detail
}

func (g *judge) look() standing {
	a := g.access()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := standing{verdict: g.verdict, since: g.since, access: a}
	if g.verdict.Code == fate.CodeInventoryUntrusted || g.verdict.Code == fate.CodeNoInventory {
		s.detail = cmp.Or(g.doubt, g.beside)
	}
	return s
}
