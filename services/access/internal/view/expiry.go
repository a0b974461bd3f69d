package view

import (
	"strings"
	"time"

	"github.com/tidwall/btree"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
)

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
