package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// refusals is which keys are refused. A fact, or the time, changes the keys of one owner: only those are judged again,
// so that the cost of a join does not grow with the fleet.
type refusals struct {
	keysOf  map[string][]string // keys in the table of keys, by their owner
	touched map[string]bool     // owners whose keys are judged at the next look
	end     map[string]time.Time
	ends    *btree.BTreeG[expiring] // owners by the time in end: when what they may use changes without a fact
	shut    map[string]map[string]bool
	latest  map[string]*latest // by account
	at      time.Time          // of the last look
}

// latest is what was last returned of an account.
type latest struct {
	Revoked
	limit int
	until time.Time // the first of the keys expires
}

func newRefusals() refusals {
	r := refusals{
		keysOf: map[string][]string{}, touched: map[string]bool{}, end: map[string]time.Time{},
		ends: newExpiry().BTreeG, shut: map[string]map[string]bool{}, latest: map[string]*latest{},
	}
	for _, account := range refusing {
		r.shut[account] = map[string]bool{}
	}
	return r
}

// refusing are the accounts with keys of their own.
var refusing = []string{topology.AccountNodes, topology.AccountGuests, topology.AccountOps, topology.AccountAudit}

// own notes that a key belongs to an owner.
func (r *refusals) own(owner, key string) {
	if !slices.Contains(r.keysOf[owner], key) {
		r.keysOf[owner] = append(r.keysOf[owner], key)
	}
	r.touched[owner] = true
}

// renewed notes that credentials for a key of an account expire later.
func (r *refusals) renewed(account string) { delete(r.latest, account) }

// forget drops a key whose credentials have expired.
func (r *refusals) forget(key string, k *accessv1.KeyRecord) {
	for _, owner := range ownersOf(k) {
		r.keysOf[owner] = slices.DeleteFunc(r.keysOf[owner], func(s string) bool { return s == key })
		if len(r.keysOf[owner]) == 0 {
			delete(r.keysOf, owner)
		}
	}
	r.set(k.Account, key, false)
}

// set notes whether an account refuses a key.
func (r *refusals) set(account, key string, refused bool) {
	if r.shut[account][key] == refused {
		return
	}
	if delete(r.latest, account); refused {
		r.shut[account][key] = true
	} else {
		delete(r.shut[account], key)
	}
}

// due returns the owners whose keys are to be judged at a time, and forgets that they are.
func (r *refusals) due(at time.Time) []string {
	if at.Before(r.at) { // a clock was set back
		clear(r.latest)
		for owner := range r.keysOf {
			r.touched[owner] = true
		}
	}
	r.at = at
	r.ends.Scan(func(x expiring) bool {
		if x.at.After(at) {
			return false
		}
		r.touched[x.key] = true
		return true
	})
	out := make([]string, 0, len(r.touched))
	for owner := range r.touched {
		out = append(out, owner)
	}
	clear(r.touched)
	return out
}

// ending sets when what an owner may use changes without a fact; the zero time means never.
func (r *refusals) ending(owner string, end time.Time) {
	if before, ok := r.end[owner]; ok {
		r.ends.Delete(expiring{before, owner})
		delete(r.end, owner)
	}
	if !end.IsZero() {
		r.end[owner] = end
		r.ends.Set(expiring{end, owner})
	}
}

// until returns when the next owner is due without a fact; the zero time means never.
func (r *refusals) until() time.Time {
	first, _ := r.ends.Min()
	return first.at
}

func ownersOf(k *accessv1.KeyRecord) []string { return append([]string{k.Owner}, k.OtherOwners...) }

// refused returns at most limit keys that an account refuses at a time.
func (v *View) refused(account string, at time.Time, limit int) Revoked {
	r := &v.refusals
	if have := r.latest[account]; have != nil && have.limit == limit && !have.until.Before(at) {
		return have.Revoked
	}
	var keys []expiring
	until := never
	for key := range r.shut[account] {
		k, _ := v.keys.Get(key)
		expires := expiresOrNever(k)
		if expired(expires, at) {
			continue
		}
		keys = append(keys, expiring{expires, strings.TrimPrefix(key, account+".")})
		if expires.Add(leeway).Before(until) {
			until = expires.Add(leeway)
		}
	}
	r.latest[account] = &latest{fit(keys, limit), limit, until}
	return r.latest[account].Revoked
}

// expired reports whether credentials have expired at a time by every clock.
func expired(expires, at time.Time) bool { return expires.Before(at.Add(-leeway)) }

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
