// Package lobby keeps who waits in the lobby, and decides about a request to join without a token.
//
// Guarantees:
//
//  1. At most Most machines are remembered, each for Kept after its last request. When there are more, the machine goes
//     that was heard longest ago of those that share the address with the most machines: who knocks with many keys
//     pushes out its own.
//  2. A key is admitted only as the server that an operator accepted it for.
package lobby

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
)

const (
	// Most is how many machines the lobby holds.
	Most = 2000
	// Kept is how long a machine is remembered after its last request.
	Kept = 2 * time.Minute
	// soonest is how soon a machine asks again, and perMachine how much later for each that waits.
	soonest    = 4 * time.Second
	perMachine = 10 * time.Millisecond
)

// Waiting is a machine in the lobby.
type Waiting struct {
	PublicKey   string
	Fingerprint string
	Address     netip.Addr // as the bus saw it; the zero Addr when it does not know
	Sysinfo     *serverv1.Sysinfo
	First, Last time.Time
}

// Book is who waits. It is not safe for concurrent use.
type Book struct {
	by         map[string]*Waiting // by public key
	of         map[netip.Addr]int  // how many, by address
	overflowed time.Time           // when one was last left out
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{by: map[string]*Waiting{}, of: map[netip.Addr]int{}} }

// Note remembers a request of a machine, and reports whether it is the first.
func (b *Book) Note(w Waiting, at time.Time) (fresh bool) {
	have := b.by[w.PublicKey]
	if fresh = have == nil; fresh {
		b.expire(at)
		if len(b.by) >= Most {
			b.overflowed = at
			b.Drop(b.oldest())
		}
		have = &Waiting{PublicKey: w.PublicKey, Fingerprint: lobby.Fingerprint(w.PublicKey), First: at}
	} else {
		b.Drop(w.PublicKey)
	}
	have.Address, have.Sysinfo, have.Last = w.Address, w.Sysinfo, at
	b.by[w.PublicKey] = have
	b.of[have.Address]++
	return fresh
}

// Drop forgets a machine.
func (b *Book) Drop(publicKey string) {
	w, ok := b.by[publicKey]
	if !ok {
		return
	}
	delete(b.by, publicKey)
	if b.of[w.Address]--; b.of[w.Address] == 0 {
		delete(b.of, w.Address)
	}
}

// expire forgets the machines that asked too long ago.
func (b *Book) expire(at time.Time) {
	for key, w := range b.by {
		if at.Sub(w.Last) > Kept {
			b.Drop(key)
		}
	}
}

// oldest returns the machine that was heard longest ago, of the address with the most machines.
func (b *Book) oldest() (key string) {
	var last time.Time
	most := 0
	for _, n := range b.of {
		most = max(most, n)
	}
	for k, w := range b.by {
		if b.of[w.Address] == most && (key == "" || w.Last.Before(last)) {
			key, last = k, w.Last
		}
	}
	return key
}

// All returns who waits at a time, by fingerprint, and whether machines were left out lately.
func (b *Book) All(at time.Time) (all []Waiting, overflowed bool) {
	b.expire(at)
	for w := range maps.Values(b.by) {
		all = append(all, *w)
	}
	slices.SortFunc(all, func(x, y Waiting) int { return cmp.Compare(x.Fingerprint, y.Fingerprint) })
	return all, at.Sub(b.overflowed) < Kept
}

// Len returns how many machines wait.
func (b *Book) Len() int { return len(b.by) }

// AskAgain returns when a machine asks again: the later, the more machines wait.
func (b *Book) AskAgain() time.Duration { return soonest + time.Duration(len(b.by))*perMachine }
