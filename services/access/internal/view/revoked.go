package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Revoked is the keys that an account must refuse.
type Revoked struct {
	Keys []string // sorted
	Left int      // how many more there are, which did not fit; their credentials expire first
}

// Revocations returns the keys that each account must refuse at a time, at most limit for each, and
// when that changes without a fact; the zero time means never. It depends on the view and the
// time alone.
func (v *View) Revocations(at time.Time, limit int) (of map[string]Revoked, until time.Time) {
	refused := map[string][]expiring{}
	admitted := map[string]server.Keys{}
	for key, k := range v.keys.All() {
		expired := k.ExpiresAt != nil && k.ExpiresAt.AsTime().Before(at.Add(-leeway))
		public := strings.TrimPrefix(key, k.Account+".")
		if expired || v.admits(public, k, at, admitted, &until) {
			continue
		}
		refused[k.Account] = append(refused[k.Account], expiring{expiresOrNever(k), public})
	}
	of = map[string]Revoked{}
	for _, account := range []string{topology.AccountNodes, topology.AccountGuests, topology.AccountOps} {
		of[account] = fit(refused[account], limit)
	}
	return of, until
}

// admits reports whether a key may connect: whether none of its owners is shut out. It moves until forward
// to when that changes.
func (v *View) admits(
	public string, k *accessv1.KeyRecord, at time.Time, admitted map[string]server.Keys, until *time.Time,
) bool {
	for _, owner := range append([]string{k.Owner}, k.OtherOwners...) {
		if k.Account == topology.AccountOps {
			if u, _ := v.users.Get(owner); user.KeyOf(u, public) == nil {
				return false
			}
			continue
		}
		keys := v.keysOf(owner, at, admitted, until)
		if k.Account == topology.AccountGuests && public != keys.Guest ||
			k.Account == topology.AccountNodes && public != keys.Own {
			return false
		}
	}
	return true
}

// keysOf returns the keys of a server or a pooled token that may connect; none of a server that was forgotten.
func (v *View) keysOf(
	id string, at time.Time, admitted map[string]server.Keys, until *time.Time,
) (keys server.Keys) {
	if keys, known := admitted[id]; known {
		return keys
	}
	var end time.Time
	if s, ok := v.servers.Get(id); ok {
		keys, end = server.Admitted(s, at)
	} else if t, ok := v.tokens.Get(id); ok {
		keys.Guest, end = token.Admitted(t, at)
	}
	if !end.IsZero() && (until.IsZero() || end.Before(*until)) {
		*until = end
	}
	admitted[id] = keys
	return keys
}

// never is after every time at which credentials expire.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func expiresOrNever(k *accessv1.KeyRecord) time.Time {
	if k.ExpiresAt == nil {
		return never
	}
	return k.ExpiresAt.AsTime()
}

// fit keeps the keys whose credentials last longest, when there are too many.
func fit(keys []expiring, limit int) (r Revoked) {
	slices.SortFunc(keys, func(a, b expiring) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.key, b.key))
	})
	if len(keys) > limit {
		keys, r.Left = keys[:limit], len(keys)-limit
	}
	for _, k := range keys {
		r.Keys = append(r.Keys, k.key)
	}
	slices.Sort(r.Keys)
	return r
}
