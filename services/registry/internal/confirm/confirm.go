// Package confirm keeps when each server last confirmed its inventory, ordered by age.
//
// Guarantees:
//
//  1. A time never goes back.
//  2. The servers that did not confirm for longest are found without a look at the others.
//  3. Its size is bounded by the servers that it expects: two words and two references to the id for each.
package confirm

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"
)

// Book is when each server last confirmed its inventory. It is safe for concurrent use, and calls nothing while it is
// locked.
type Book struct {
	mu     sync.RWMutex
	at     map[string]int64 // nanoseconds since 1970; 0 means that it is not known
	oldest *btree.BTreeG[entry]
}

// entry is a server with its time.
type entry struct {
	at     int64
	server string
}

// New returns a book without servers.
func New() *Book {
	return &Book{at: map[string]int64{}, oldest: btree.NewBTreeGOptions(func(a, b entry) bool {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.server, b.server)) < 0
	}, btree.Options{NoLocks: true})}
}

// Expect adds servers that confirmed nothing yet.
func (b *Book) Expect(servers ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range servers {
		if _, known := b.at[s]; !known {
			b.set(s, 0)
		}
	}
}

// Confirm notes that a server's inventory was right at a time.
func (b *Book) Confirm(server string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at.UnixNano() > b.at[server] {
		b.set(server, at.UnixNano())
	}
}

func (b *Book) set(server string, at int64) {
	if before, known := b.at[server]; known {
		b.oldest.Delete(entry{before, server})
	}
	b.at[server] = at
	b.oldest.Set(entry{at, server})
}

// Len returns how many servers there are.
func (b *Book) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.at)
}

// Keep drops the servers that are not to be kept.
func (b *Book) Keep(keep func(server string) bool) {
	b.mu.RLock()
	var gone []string
	for s := range b.at {
		if !keep(s) {
			gone = append(gone, s)
		}
	}
	b.mu.RUnlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range gone {
		b.oldest.Delete(entry{b.at[s], s})
		delete(b.at, s)
	}
}

// At returns when a server last confirmed its inventory; zero when that is not known.
func (b *Book) At(server string) time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if at := b.at[server]; at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// ConfirmedSince reports whether a server confirmed its inventory at a time or later.
func (b *Book) ConfirmedSince(server string, at time.Time) bool {
	last := b.At(server)
	return !last.IsZero() && !last.Before(at)
}

// Unconfirmed returns the servers that did not confirm their inventory since a time, by id, or ok false when there are
// more than most.
func (b *Book) Unconfirmed(at time.Time, most int) (servers []string, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	ok = true
	b.oldest.Scan(func(e entry) bool {
		if e.at >= at.UnixNano() {
			return false
		}
		ok = len(servers) < most
		servers = append(servers, e.server)
		return ok
	})
	if !ok {
		return nil, false
	}
	slices.Sort(servers)
	return servers, true
}
