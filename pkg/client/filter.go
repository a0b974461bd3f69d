package client

import (
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// Filter selects facts in the words of garrison events. The zero Filter selects all; of a list, one must match.
type Filter struct {
	Nouns []string // what the facts are about
	Facts []string // their names, such as failed
	Actor string   // a user or a service
	IDs   []string // ids, or the start or the end of one, or names, in their keys or as their request
}

// Fits reports whether the filter selects a fact.
func (f Filter) Fits(e Event) bool {
	return (len(f.Nouns) == 0 || slices.Contains(f.Nouns, string(e.Noun))) &&
		(len(f.Facts) == 0 || slices.Contains(f.Facts, e.Name())) && (f.Actor == "" || f.Actor == e.Actor) &&
		(len(f.IDs) == 0 || slices.ContainsFunc(f.IDs, e.has))
}

// has reports whether an id or a name is part of the fact's key or is its request. The start or the end of an id
// suffices.
func (e Event) has(id string) bool {
	if e.Key == id {
		return true
	}
	if first, rest, ok := strings.Cut(id, "."); ok && ident.CanBePart(first) { // 01900000-0000.beacon
		own, ofKey, _ := strings.Cut(e.Key, ".")
		return ofKey == rest && ident.IsPart(first, own)
	}
	return ident.IsPart(id, e.Request) ||
		slices.ContainsFunc(strings.Split(e.Key, "."), func(part string) bool { return ident.IsPart(id, part) })
}
