package view

import (
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
	"github.com/garrison-fleet/garrison/pkg/topology"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
)

// Revoked is the keys that an account must refuse.
type Revoked struct {
	Keys []string // sorted
	Left int      // how many more there are, which did not fit; their credentials expire first
}

// Revocations returns the keys that each account must refuse at a time, at most limit for each, and
// when that changes without a fact; the zero time means never. It depends on the facts and the
// time alone. It is not safe for concurrent use.
func (v *View) Revocations(at time.Time, limit int) (of map[string]Revoked, until time.Time) {
	due := v.refusals.due(at)
	for _, owner := range due {
		_, end := v.admitted(owner, at)
		v.refusals.ending(owner, end)
	}
	for _, owner := range due {
		for _, key := range v.refusals.keysOf[owner] {
			k, _ := v.keys.Get(key)
			v.refusals.set(k.Account, key, !v.admits(strings.TrimPrefix(key, k.Account+"."), k, at))
		}
	}
	of = map[string]Revoked{}
	for _, account := range refusing {
		of[account] = v.refused(account, at, limit)
	}
	return of, v.refusals.until()
}

// admits reports whether a key may connect: whether none of its owners is shut out.
func (v *View) admits(public string, k *accessv1.KeyRecord, at time.Time) bool {
	for _, owner := range ownersOf(k) {
		if slices.Contains(topology.PeopleAccounts, k.Account) {
			if u, _ := v.users.Get(owner); user.KeyOf(u, public) == nil {
				return false
			}
			continue
		}
		keys, _ := v.admitted(owner, at)
		if k.Account == topology.AccountGuests && public != keys.Guest ||
			k.Account == topology.AccountNodes && public != keys.Own {
			return false
		}
	}
	return true
}

// admitted returns the keys of a server or a pooled token that may connect, and when that changes without a fact; no
// keys of a server that was forgotten.
func (v *View) admitted(id string, at time.Time) (keys server.Keys, end time.Time) {
	if s, ok := v.servers.Get(id); ok {
		return server.Admitted(s, at)
	}
	if t, ok := v.tokens.Get(id); ok {
		keys.Guest, end = token.Admitted(t, at)
	}
	return keys, end
}

// expiry is the keys in the order in which their credentials expire. Keys whose credentials do not
// expire are not in it.
type expiry struct{ *btree.BTreeG[expiring] }

type expiring struct {
	at  time.Time
	key string
}

func newExpiry() *expiry {
	return &expiry{btree.NewBTreeGOptions(func(a, b expiring) bool {
		if c := a.at.Compare(b.at); c != 0 {
			return c < 0
		}
		return strings.Compare(a.key, b.key) < 0
	}, btree.Options{NoLocks: true})}
}

func (e *expiry) add(key string, k *accessv1.KeyRecord) {
	if k.ExpiresAt != nil {
		e.Set(expiring{k.ExpiresAt.AsTime(), key})
	}
}

func (e *expiry) remove(key string, k *accessv1.KeyRecord) {
	if k.ExpiresAt != nil {
		e.Delete(expiring{k.ExpiresAt.AsTime(), key})
	}
}

// before returns the keys whose credentials expired before a time.
func (e *expiry) before(at time.Time) []string {
	var out []string
	e.Scan(func(x expiring) bool {
		if !x.at.Before(at) {
			return false
		}
		out = append(out, x.key)
		return true
	})
	return out
}
