package view

import (
	"maps"
	"slices"

	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// refreshes are the accepted refreshes for which servers still need a task.
type refreshes struct {
	table    *fold.Table[*dispatcherv1.RefreshRecord] // by intent
	byServer map[string]map[string]bool               // by server, the intents for which it needs a task
	due      btree.Map[uint64, string]                // intent ids, by sequence of accepted
}

// applyAccepted records the servers of an accepted refresh that need a task.
func (v *View) applyAccepted(f ledger.Fact, a *intentv1.Accepted) {
	if a.GetIntent().GetRefresh() == nil || a.GetIntent().GetDryRun() {
		return
	}
	q := a.GetIntent().GetRefresh()
	r := &dispatcherv1.RefreshRecord{
		Sequence: f.Sequence, Scan: q.GetScan(), PurgeKept: q.GetPurgeKept(), Ahead: q.GetAhead(),
	}
	for _, id := range a.ServerIds {
		if s, ok := v.servers.Get(id); ok && s.Life == serverv1.Life_LIFE_ALIVE {
			r.ServerIds = append(r.ServerIds, id)
		}
	}
	slices.Sort(r.ServerIds)
	r.ServerIds = slices.Compact(r.ServerIds)
	if a.Changed > 0 {
		c := v.counts.begin(f.Key, f.Sequence).Counts
		c.ToOpen, c.NeverOpened = uint32(len(r.ServerIds)), a.Changed-min(a.Changed, uint32(len(r.ServerIds)))
	}
	if len(r.ServerIds) == 0 {
		return
	}
	v.refreshes.table.Put(f.Key, r, f.Sequence)
	v.refreshes.index(f.Key, r)
}

func (p *refreshes) index(intent string, r *dispatcherv1.RefreshRecord) {
	p.due.Set(r.Sequence, intent)
	for _, server := range r.ServerIds {
		of := p.byServer[server]
		if of == nil {
			of = map[string]bool{}
			p.byServer[server] = of
		}
		of[intent] = true
	}
}

// drop records that a server no longer needs a task for an intent, and reports whether it
// needed one.
func (p *refreshes) drop(intent, server string) (needed bool) {
	r, ok := p.table.Get(intent)
	if !ok {
		return false
	}
	at, needed := slices.BinarySearch(r.ServerIds, server)
	if needed {
		r.ServerIds = slices.Delete(r.ServerIds, at, at+1)
	}
	if of := p.byServer[server]; of != nil {
		if delete(of, intent); len(of) == 0 {
			delete(p.byServer, server)
		}
	}
	if len(r.ServerIds) == 0 {
		p.due.Delete(r.Sequence)
		p.table.Forget(intent)
	}
	return needed
}

// dropServer records that a server needs no task for any refresh.
func (p *refreshes) dropServer(server string, counts *counts) {
	for _, intent := range slices.Collect(maps.Keys(p.byServer[server])) {
		if p.drop(intent, server) {
			counts.passed(intent)
		}
	}
}
