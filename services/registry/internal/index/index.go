// Package index keeps ordered sets of members by group, so that a filtered list with a
// cursor reads only what it shows.
//
// Guarantees:
//
//  1. Ascend gives the members of a group in their order, each once.
//  2. Count is exact and costs nothing, so that the most selective index can be chosen.
//  3. A group without members takes no memory.
package index

import (
	"strings"

	"github.com/tidwall/btree"
)

// between divides group and member in a key. It sorts below every character of either.
const between = "\x00"

// Set is an ordered set of members for each group. The zero value is empty. Reading it
// from several goroutines is safe while nobody writes.
type Set struct {
	keys   btree.Set[string]
	counts map[string]int
}

// Add puts a member into a group.
func (s *Set) Add(group, member string) {
	key := group + between + member
	if s.keys.Contains(key) {
		return
	}
	if s.counts == nil {
		s.counts = map[string]int{}
	}
	s.keys.Insert(key)
	s.counts[group]++
}

// Remove takes a member out of a group.
func (s *Set) Remove(group, member string) {
	key := group + between + member
	if !s.keys.Contains(key) {
		return
	}
	s.keys.Delete(key)
	if s.counts[group]--; s.counts[group] == 0 {
		delete(s.counts, group)
	}
}

// Has says whether a member is in a group.
func (s *Set) Has(group, member string) bool { return s.keys.Contains(group + between + member) }

// Count gives the number of members of a group.
func (s *Set) Count(group string) int { return s.counts[group] }

// Ascend gives the members of a group behind after, in order; an empty after means from the start.
func (s *Set) Ascend(group, after string) func(yield func(string) bool) {
	prefix := group + between
	pivot := prefix + after
	if after != "" {
		pivot += between // the least string behind after
	}
	return func(yield func(string) bool) {
		s.keys.Ascend(pivot, func(key string) bool {
			member, ok := strings.CutPrefix(key, prefix)
			return ok && yield(member)
		})
	}
}

// Prefixed gives the members of a group that start with prefix, in order.
func (s *Set) Prefixed(group, prefix string) func(yield func(string) bool) {
	start := group + between + prefix
	return func(yield func(string) bool) {
		s.keys.Ascend(start, func(key string) bool {
			return strings.HasPrefix(key, start) && yield(key[len(group)+len(between):])
		})
	}
}

// Clear empties the set.
func (s *Set) Clear() {
	s.keys.Clear()
	s.counts = nil
}

// Change replaces a member's groups: those only in before are left, those only in after are joined.
func (s *Set) Change(member string, before, after []string) {
	for _, g := range before {
		if !contains(after, g) {
			s.Remove(g, member)
		}
	}
	for _, g := range after {
		s.Add(g, member)
	}
}

func contains(groups []string, group string) bool {
	for _, g := range groups {
		if g == group {
			return true
		}
	}
	return false
}
