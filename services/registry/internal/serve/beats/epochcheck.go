package beats

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/epoch"
	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

// checkEvery is how often the ledger is read for one server's doubt at most.
const checkEvery = 10 * time.Second

// epochChecks decides whether servers that may be ahead of the ledger are.
type epochChecks struct {
	records *records.Records
	conn    *bus.Conn
	changes *serverChanges
	log     zerolog.Logger

	mu      sync.Mutex
	checked map[string]time.Time // when the ledger was last read for a server, by its id
}

func newEpochChecks(r *records.Records, conn *bus.Conn, changes *serverChanges, log zerolog.Logger) *epochChecks {
	return &epochChecks{records: r, conn: conn, changes: changes, log: log, checked: map[string]time.Time{}}
}

// checkedRecently reports whether the ledger was read for the server a moment ago.
func (e *epochChecks) checkedRecently(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, recently := e.checked[id]
	return recently
}

// settle decides for each server whether the ledger lost part of its history. A view that lags
// decides nothing: the end of the ledger is read first, from its leader, and after the beats that
// raised the doubts.
func (e *epochChecks) settle(ctx context.Context, doubts map[string]presence.Beat) {
	servers := e.takeDue(slices.Sorted(maps.Keys(doubts)))
	if len(servers) == 0 {
		return
	}
	once, cancel := context.WithTimeout(ctx, bus.DefaultTimeout) // no beat is judged meanwhile
	defer cancel()
	end, err := e.conn.StreamFrom(once, topology.Ledger, e.records.Follower.Position())
	if err == nil {
		err = e.records.Follower.Wait(once, end.LastSequence)
	}
	if err != nil {
		e.log.Debug().Err(err).Msg("doubts about servers' histories put off")
		return
	}
	records.InParallel(len(servers), func(n int) { e.settleOne(ctx, servers[n], doubts[servers[n]], end.LastSequence) })
}

// takeDue returns the servers for which the ledger was not read a moment ago, and notes that it is now.
func (e *epochChecks) takeDue(servers []string) (due []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.records.Now()
	for id, at := range e.checked {
		if now.Sub(at).Abs() >= checkEvery {
			delete(e.checked, id)
		}
	}
	for _, id := range servers {
		if _, recently := e.checked[id]; !recently {
			due = append(due, id)
			e.checked[id] = now
		}
	}
	return due
}

// settleOne records what the ledger shows about one server's history, when that is a change.
func (e *epochChecks) settleOne(ctx context.Context, id string, last presence.Beat, end uint64) {
	mark, err := e.markAt(ctx, last.Place.GetGeneration(), end)
	if err != nil {
		e.log.Debug().Err(err).Str(logs.Server, id).Msg("doubt about a server's history put off")
		return
	}
	var c serverChange
	e.records.Follower.Read(func() {
		if s, ok := e.records.View.Server(id); ok {
			if body := epoch.Settle(s, last, end, mark); body != nil {
				c = e.changes.draft(s, body)
			}
		}
	})
	if c.draft.Body == nil {
		return
	}
	if lost, ok := c.draft.Body.(*serverv1.Ahead); ok {
		e.log.Warn().Str(logs.Server, id).Str("name", c.name).Str(logs.Code, code.LedgerBehind).
			Uint64("generation", lost.Place.GetGeneration()).Uint64("ledger_end", lost.LedgerEnd).
			Msg("the ledger lost part of a server's history")
	}
	e.changes.record(ctx, c)
}

// markAt returns the mark of the fact at a sequence of the ledger, and 0 beyond its end.
func (e *epochChecks) markAt(ctx context.Context, sequence, end uint64) (uint64, error) {
	if sequence == 0 || sequence > end {
		return 0, nil
	}
	found, err := e.conn.DirectGetFrom(ctx, topology.Ledger, bus.Everything, sequence, 1)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 || found[0].Sequence != sequence {
		return 0, fault.New(fault.Unavailable, "the replica that answered does not have fact %d yet", sequence)
	}
	f, err := ledger.Decode(found[0].Subject, found[0].Header, found[0].Data, sequence)
	if f.Body != nil { // what is known of a newer version's fact is enough
		err = nil
	}
	return ledger.Mark(f), err
}
