package instances

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/external"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// behindInstances begins the keys of external instances in a list of instances. It sorts behind every server's id, with
// which the keys of the others begin, so a cursor says by itself in which part of the list it is.
const behindInstances = "~"

// behind returns the rows of a list of instances, and then those of the external instances that its filter selects, or
// the stale ones alone. An age has no index: those are found by a scan. It must run inside Read.
func (e *Externals) behind(
	rows iter.Seq2[string, *registryv1.InstanceRow], q view.InstanceFilter, after string,
	presenceOf func(*serverv1.Server) serverv1.Presence, stale bool,
) iter.Seq2[string, *registryv1.InstanceRow] {
	after, external := strings.CutPrefix(after, behindInstances)
	if !external {
		after = ""
	}
	return func(yield func(string, *registryv1.InstanceRow) bool) {
		if !external && !stale {
			for key, row := range rows {
				if !yield(key, row) {
					return
				}
			}
		}
		for key, x := range e.records.View.ExternalsLike(q, after, e.confirmedAt) {
			row := e.instanceRow(key, x, presenceOf)
			if (!stale || row.GetExternal().GetStale()) && !yield(behindInstances+key, row) {
				return
			}
		}
	}
}

// instanceRow returns the row of an external instance in a list of instances. It must run inside Read.
func (e *Externals) instanceRow(
	key string, x *externalv1.External, presenceOf func(*serverv1.Server) serverv1.Presence,
) *registryv1.InstanceRow {
	s, _ := e.records.View.Server(x.GetFound().GetServer())
	row := &registryv1.InstanceRow{ServerName: s.GetName(), Presence: presenceOf(s), External: e.row(key, x)}
	row.Instance = view.AsInstance(row.External.External)
	if wanted := row.External.Wanted; wanted != "" {
		row.Instance.Wanted = &imagev1.Ref{Version: wanted}
	}
	return row
}

// confirmedAt returns when a report last listed an external instance; zero when none did since this process started.
func (e *Externals) confirmedAt(key string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.confirmed[key]
}

// on returns the external instances on a server, or those on none, as a check sees them. It must run inside Read.
func (e *Externals) on(server string) iter.Seq[drift.External] {
	return func(yield func(drift.External) bool) {
		for key, x := range e.records.View.ExternalsOn(server) {
			a, _ := e.records.View.Agent(x.Agent)
			row := e.row(key, x)
			seen := drift.External{
				Instance: row.External, Stale: row.Stale, Within: external.Within(a), Wanted: row.Wanted,
			}
			if !yield(seen) {
				return
			}
		}
	}
}

// each returns the values of two sequences.
func each[V any](a, b iter.Seq[V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for v := range a {
			if !yield(v) {
				return
			}
		}
		b(yield)
	}
}

// unreported returns, by agent and name, the external instances that are wanted by their names and that no report
// lists. It must run inside Read.
func (e *Externals) unreported() iter.Seq[drift.External] {
	return func(yield func(drift.External) bool) {
		for _, a := range e.records.View.Agents("") {
			if a.Kind != agentv1.Kind_KIND_EXTERNAL {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(a.Wanted)) {
				_, there := e.records.View.External(a.Name, name)
				if there || external.OfMany(name) {
					continue
				}
				missing := &externalv1.External{Agent: a.Name, Found: &externalv1.Found{Name: name}}
				if !yield(drift.External{Instance: missing, Missing: true, Wanted: a.Wanted[name]}) {
					return
				}
			}
		}
	}
}

// unplaced stands in a cursor for the external instances that are on no server. It sorts behind every server's id.
const unplaced = "~"

// addUnplaced adds, behind the last server of a check of the whole fleet, the differences of the external instances
// that are on no server, or that no report lists.
func (c *checking) addUnplaced() {
	if c.ask.On != nil || c.ask.Scope == registryv1.CheckScope_CHECK_SCOPE_SERVERS {
		return
	}
	first, n, agents := 0, 0, uint32(0)
	if c.from.server == unplaced {
		first = c.from.row
	}
	for x := range each(c.api.Externals.on(""), c.api.Externals.unreported()) {
		if c.ask.Agent != "" && x.Instance.Agent != c.ask.Agent {
			continue
		}
		agents++
		d := x.Difference()
		if d == nil {
			continue
		}
		if n++; n > first && !c.add(d) {
			c.resp.NextCursor = checkCursor{unplaced, n - 1}.String()
			return
		}
	}
	c.resp.Agents += agents
}
