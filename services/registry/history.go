package registry

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// settleEvery is how often the ledger is asked about one server's history at most.
const settleEvery = 10 * time.Second

// settleDoubts decides for each server whether the ledger lost part of its history. A view that lags decides nothing:
// the end of the ledger is asked for first, of its leader, and after the beats were heard that raised the doubts.
func (r *Registry) settleDoubts(ctx context.Context, doubts map[string]server.Heard) {
	servers := r.notSettledLately(slices.Sorted(maps.Keys(doubts)))
	if len(servers) == 0 {
		return
	}
	end, err := r.Conn.Stream(ctx, topology.Ledger)
	if err == nil {
		err = r.follower.Wait(ctx, end.LastSequence)
	}
	if err != nil {
		r.Log.Debug().Err(err).Msg("doubts about servers' histories put off")
		return
	}
	r.sideBySide(len(servers), func(n int) { r.settle(ctx, servers[n], doubts[servers[n]], end.LastSequence) })
}

// notSettledLately returns the servers for which the ledger was not asked a moment ago, and notes that it is now.
func (r *Registry) notSettledLately(servers []string) (due []string) {
	r.heardMu.Lock()
	defer r.heardMu.Unlock()
	now := r.Now()
	for id, at := range r.settled {
		if now.Sub(at).Abs() >= settleEvery {
			delete(r.settled, id)
		}
	}
	for _, id := range servers {
		if _, lately := r.settled[id]; !lately {
			due = append(due, id)
			r.settled[id] = now
		}
	}
	return due
}

// settle records what the ledger says about one server's history, when there is something to record.
func (r *Registry) settle(ctx context.Context, id string, heard server.Heard, end uint64) {
	mark, err := r.markAt(ctx, heard.Place.GetGeneration(), end)
	if err != nil {
		r.Log.Debug().Err(err).Str(logs.Server, id).Msg("doubt about a server's history put off")
		return
	}
	var c change
	r.follower.Read(func() {
		if s, ok := r.view.Server(id); ok {
			if body := server.Settle(s, heard, end, mark); body != nil {
				c = r.draftChange(s, body)
			}
		}
	})
	if c.draft.Body == nil {
		return
	}
	if lost, ok := c.draft.Body.(*serverv1.Ahead); ok {
		r.Log.Warn().Str(logs.Server, id).Str("name", c.name).Str(logs.Code, server.CodeLedgerBehind).
			Uint64("generation", lost.Place.GetGeneration()).Uint64("ledger_end", lost.LedgerEnd).
			Msg("the ledger lost part of a server's history")
	}
	r.recordChange(ctx, c)
}

// markAt returns the mark of the fact at a place of the ledger, and 0 beyond its end.
func (r *Registry) markAt(ctx context.Context, sequence, end uint64) (uint64, error) {
	if sequence == 0 || sequence > end {
		return 0, nil
	}
	found, err := r.Conn.DirectGetFrom(ctx, topology.Ledger, ledger.Prefix+">", sequence, 1)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 || found[0].Sequence != sequence {
		return 0, fault.New(fault.Unavailable, "the replica that answered does not have fact %d yet", sequence)
	}
	f, err := ledger.Decode(found[0].Subject, found[0].Header, found[0].Data, sequence)
	return ledger.Mark(f), err
}
