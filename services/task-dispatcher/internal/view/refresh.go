package view

import (
	"maps"
	"slices"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// applyAccepted notes the servers of an accepted refresh that will need a task.
func (v *View) applyAccepted(f ledger.Fact, a *intentv1.Accepted) {
	if a.GetIntent().GetRefresh() == nil || a.GetIntent().GetDryRun() {
		return
	}
	r := &dispatcherv1.RefreshRecord{Sequence: f.Sequence}
	for _, id := range a.ServerIds {
		if s, ok := v.servers.Get(id); ok && s.Life == serverv1.Life_LIFE_ALIVE {
			r.ServerIds = append(r.ServerIds, id)
		}
	}
	slices.Sort(r.ServerIds)
	r.ServerIds = slices.Compact(r.ServerIds)
	if a.Changed > 0 {
		c := v.beginCount(f.Key, f.Sequence).Counts
		c.ToOpen, c.NeverOpened = uint32(len(r.ServerIds)), a.Changed-min(a.Changed, uint32(len(r.ServerIds)))
	}
	if len(r.ServerIds) == 0 {
		return
	}
	v.refreshes.Put(f.Key, r, f.Sequence)
	v.indexRefresh(f.Key, r)
}

func (v *View) indexRefresh(intent string, r *dispatcherv1.RefreshRecord) {
	v.refreshDue.Set(r.Sequence, intent)
	for _, server := range r.ServerIds {
		of := v.refreshing[server]
		if of == nil {
			of = map[string]bool{}
			v.refreshing[server] = of
		}
		of[intent] = true
	}
}

// dropRefresh notes that a server needs no task for an intent any more, and reports whether it needed one.
func (v *View) dropRefresh(intent, server string) (needed bool) {
	r, ok := v.refreshes.Get(intent)
	if !ok {
		return false
	}
	at, needed := slices.BinarySearch(r.ServerIds, server)
	if needed {
		r.ServerIds = slices.Delete(r.ServerIds, at, at+1)
	}
	if of := v.refreshing[server]; of != nil {
		if delete(of, intent); len(of) == 0 {
			delete(v.refreshing, server)
		}
	}
	if len(r.ServerIds) == 0 {
		v.refreshDue.Delete(r.Sequence)
		v.refreshes.Forget(intent)
	}
	return needed
}

// dropRefreshes does so for every intent.
func (v *View) dropRefreshes(server string) {
	for _, intent := range slices.Collect(maps.Keys(v.refreshing[server])) {
		if v.dropRefresh(intent, server) {
			v.passed(intent)
		}
	}
}
