package beats

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/epoch"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// dueNow is what a look at servers found.
type dueNow struct {
	changes []serverChange
	doubts  map[string]presence.Beat
	asks    map[topology.ServerAddress]time.Duration
}

func newDue() dueNow {
	return dueNow{doubts: map[string]presence.Beat{}, asks: map[topology.ServerAddress]time.Duration{}}
}

const (
	// sweepPart is how many servers are looked at before answers and facts get their turn.
	sweepPart = 1000
	// sweepShare is the largest share of the time that sweeps of a large fleet take, one in so many.
	sweepShare = 20
)

// sweep records every change that is due now, also those that follow from silence. It returns how long it looked at the
// servers.
func (p *Watch) sweep(ctx context.Context) (looked time.Duration) {
	began := time.Now()
	p.mu.Lock()
	clear(p.changed)
	p.hearing.Look(p.records.Now()) // before anything is decided: this process may have stood still until now
	p.mu.Unlock()
	p.holdBack()
	due, managed := newDue(), 0
	var part []string
	p.inParts(func(servers iter.Seq[*serverv1.Server], now time.Time, end uint64) {
		t := p.timing(now)
		part = part[:0]
		for s := range servers {
			if server.Managed(s) {
				part = append(part, s.Id)
			} else {
				delete(p.last, s.Id)
			}
			p.decide(s, t, end, &due)
			p.askAgain(s, now, &due)
		}
		managed += len(part)
		p.Confirmations.book.Expect(part...)
	})
	p.forget(managed)
	p.mu.Lock()
	p.setSpacing(managed)
	spacing := p.spacing
	p.mu.Unlock()
	p.unknown.prune(p.records.Now(), spacing)
	looked = time.Since(began)
	p.record(ctx, due)
	p.mu.Lock()
	p.sweeps++
	p.mu.Unlock()
	return looked
}

// restAfter returns how long the next sweep waits: at least every, at most one interval of beats, and between them as
// much longer than the last one took as keeps all of them within one part in sweepShare of the time.
func restAfter(looked, every, interval time.Duration) time.Duration {
	return max(every, min(looked*sweepShare, interval))
}

// inParts has look look at all servers, part by part, each with the time and the position of the view. It runs look
// inside Read and with mu held.
func (p *Watch) inParts(look func(servers iter.Seq[*serverv1.Server], now time.Time, end uint64)) {
	for from := 0; from >= 0; {
		now, end := p.records.Now(), p.records.Follower.Position()
		p.records.Follower.Read(func() { // before mu, as answers do it
			p.mu.Lock()
			defer p.mu.Unlock()
			var servers iter.Seq[*serverv1.Server]
			servers, from = p.records.View.SomeServers(from, sweepPart)
			look(servers, now, end)
		})
	}
}

// forget drops what is kept of servers that are dead or forgotten, when there is more than of those under management.
func (p *Watch) forget(managed int) {
	p.records.Follower.Read(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reports.Prune()
		is := func(id string) bool {
			s, ok := p.records.View.Server(id)
			return ok && server.Managed(s)
		}
		if len(p.last) > managed {
			maps.DeleteFunc(p.last, func(id string, _ presence.Beat) bool { return !is(id) })
		}
		if p.Confirmations.book.Len() > managed {
			p.Confirmations.book.Keep(is)
		}
	})
}

// decideChanged records the changes that are due by the beats since the last look. It looks at the servers of those
// beats alone: while a fleet joins, each beat is the first one.
func (p *Watch) decideChanged(ctx context.Context) {
	now, end := p.records.Now(), p.records.Follower.Position()
	due := newDue()
	p.records.Follower.Read(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hearing.Look(now)
		t := p.timing(now)
		for id := range p.changed {
			// Silence is for the sweep, which counts the silent servers first.
			if s, ok := p.records.View.Server(id); ok && p.last[id].Fresh(now, p.Interval) {
				p.decide(s, t, end, &due)
			}
		}
		clear(p.changed)
	})
	p.record(ctx, due)
}

// timing returns what presence is decided with now. It must run with mu held.
func (p *Watch) timing(now time.Time) presence.Timing {
	return presence.Timing{
		Now: now, Heard: p.hearing.Until(), Interval: p.Interval,
		Spacing: presence.LongestSpacing(p.Interval, p.spacing), Grace: p.hearing.Grace(), Held: p.hold.Holds(now),
	}
}

// decide adds to due what is due of a server. It must run inside Read and with mu held.
func (p *Watch) decide(s *serverv1.Server, t presence.Timing, end uint64, due *dueNow) {
	last := p.last[s.Id]
	if body := p.factFor(s, last, t); body != nil {
		due.changes = append(due.changes, p.changes.draft(s, body))
	} else if p.records.Believed(s) && epoch.DoubtOf(s, last, end) != epoch.NoDoubt {
		due.doubts[s.Id] = last
	}
}

func (p *Watch) record(ctx context.Context, due dueNow) {
	records.InParallel(len(due.changes), func(n int) { p.changes.record(ctx, due.changes[n]) })
	p.epochs.settle(ctx, due.doubts)
	for at, every := range due.asks {
		p.Answers.ask(at, every)
	}
}

// serverChanges records changes of servers that the registry itself noticed.
type serverChanges struct {
	records *records.Records
	log     zerolog.Logger
}

// serverChange is one such change.
type serverChange struct {
	draft ledger.Draft
	name  string
}

// draft drafts a change. Beats cause it, but for what follows from silence or from the budget. It must
// run inside Read.
func (c *serverChanges) draft(s *serverv1.Server, body proto.Message) serverChange {
	cause := ledger.CausedByBeat(s.Id)
	switch body.(type) {
	case *serverv1.Offline, *serverv1.Quarantined:
		cause = ledger.CausedByClock
	}
	f := c.records.Own(ledger.Server, s.Id, body, cause)
	return serverChange{draft: c.records.Guard(f), name: s.Name}
}

// record records a change. A Conflict means that another replica recorded it, or that the server
// changed; the next sweep decides again.
func (c *serverChanges) record(ctx context.Context, change serverChange) {
	_, err := c.records.Decider.Append(ctx, change.draft)
	id, fact := change.draft.Key, change.draft.Name()
	switch {
	case err == nil && fact == "quarantined":
		why := change.draft.Body.(*serverv1.Quarantined)
		c.log.Warn().Str(logs.Server, id).Str("name", change.name).Str(logs.Code, why.Code).
			Str(logs.Reason, why.Reason).Msg("server quarantined")
	case err == nil:
		c.log.Info().Str(logs.Server, id).Str("name", change.name).Str("change", fact).Msg("server changed")
	case ctx.Err() == nil && !fault.Is(err, fault.Conflict):
		c.log.Warn().Err(err).Str(logs.Server, id).Str("change", fact).Msg("change of a server not recorded")
	}
}
