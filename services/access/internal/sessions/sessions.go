// Package sessions counts the open connections of each key, and chooses which of them are too many.
package sessions

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// Most is how many connections a server's key may have at once: one, one for downloads, and those of
	// which the bus has not noticed yet that they are broken.
	Most = 3
	// MostOfPerson is how many a person's key may have: several programs may act for a person.
	MostOfPerson = 64
	// MostOfToken is how many the key of a pooled token may have, with which many servers join at once.
	MostOfToken = 256
)

// Session is an open connection.
type Session struct {
	Server  string // the id of the bus's server that has it
	ID      uint64 // unique among those of the server, and growing
	User    string // the public key
	Name    string // of the bus's server
	Address string
	Since   time.Time
}

type place struct {
	server string
	id     uint64
}

// open is an open connection, and whether it was found to be one too many.
type open struct {
	Session
	surplus bool
}

// Book is the open connections by key. It is not safe for concurrent use.
type Book struct {
	most  func(user string) int
	keys  map[string]map[place]*open
	users map[place]string
}

// NewBook returns an empty book for keys that may have as many connections as most returns.
func NewBook(most func(user string) int) *Book {
	return &Book{most: most, keys: map[string]map[place]*open{}, users: map[place]string{}}
}

// Open adds a connection and returns the ones of its key that are one too many now, and were not before.
func (b *Book) Open(s Session) []Session {
	of := b.keys[s.User]
	if of == nil {
		of = map[place]*open{}
		b.keys[s.User] = of
	}
	if of[place{s.Server, s.ID}] == nil {
		of[place{s.Server, s.ID}] = &open{Session: s}
		b.users[place{s.Server, s.ID}] = s.User
	}
	return b.surplus(s.User, of)
}

// Close removes a connection, and reports whether it was the last one of its key.
func (b *Book) Close(s Session) (last bool) {
	of := b.keys[s.User]
	if of[place{s.Server, s.ID}] == nil {
		return false
	}
	delete(b.users, place{s.Server, s.ID})
	if delete(of, place{s.Server, s.ID}); len(of) == 0 {
		delete(b.keys, s.User)
		return true
	}
	return false
}

// Replace sets the connections to those that are open. It returns the ones that are too many, and the keys whose last
// connection ended.
func (b *Book) Replace(all []Session) (tooMany []Session, gone []string) {
	before := b.keys
	*b = *NewBook(b.most)
	for _, s := range all {
		tooMany = append(tooMany, b.Open(s)...)
	}
	for key := range before {
		if b.keys[key] == nil {
			gone = append(gone, key)
		}
	}
	return tooMany, gone
}

// Has reports whether a connection of a key is open.
func (b *Book) Has(key string) bool { return b.keys[key] != nil }

// Count returns how many connections are open, of how many keys.
func (b *Book) Count() (connections, keys int) { return len(b.users), len(b.keys) }

// UserOf returns the key of an open connection, or "".
func (b *Book) UserOf(server string, id uint64) string { return b.users[place{server, id}] }

// Of returns the connections of a key, oldest first.
func (b *Book) Of(user string) []Session {
	var out []Session
	for _, o := range sorted(b.keys[user]) {
		out = append(out, o.Session)
	}
	return out
}

// Several returns the keys with more than one connection.
func (b *Book) Several() []string {
	var out []string
	for user, of := range b.keys {
		if len(of) > 1 {
			out = append(out, user)
		}
	}
	return out
}

// surplus returns the newest connections beyond those that a key may have, without those that it
// returned before.
func (b *Book) surplus(user string, of map[place]*open) (out []Session) {
	if len(of) <= Most {
		return nil
	}
	for _, o := range sorted(of)[min(b.most(user), len(of)):] {
		if !o.surplus {
			o.surplus = true
			out = append(out, o.Session)
		}
	}
	return out
}

// sorted orders connections by age. Every replica of the service has the same order.
func sorted(of map[place]*open) []*open {
	return slices.SortedFunc(maps.Values(of), func(a, b *open) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Server, b.Server), cmp.Compare(a.ID, b.ID))
	})
}
