// Package index keeps ordered sets of members by group, so that a filtered list with a
// cursor reads only what it shows.
//
// Guarantees:
//
//  1. Ascend returns the members of a group in their order, each once; so does Union for several groups.
//  2. Count is exact and costs nothing, so that the most selective index can be chosen.
//  3. A group without members takes no memory. A member's text is kept once, and some four bytes at most for each of
//     its groups.
package index

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// Group names a group: a field and one of its values.
type Group struct{ Field, Value string }

// Set is an ordered set of members for each group. The zero value is empty. Concurrent reads are safe
// while no goroutine writes.
type Set struct {
	names  names
	fields map[string]map[string]*numbers
}

func (s *Set) group(g Group) *numbers { return s.fields[g.Field][g.Value] }

// Add puts a member into a group.
func (s *Set) Add(g Group, member string) { s.join(g, s.names.number(member)) }

func (s *Set) join(g Group, n uint32) {
	if s.fields == nil {
		s.fields = map[string]map[string]*numbers{}
	}
	values := s.fields[g.Field]
	if values == nil {
		values = map[string]*numbers{}
		s.fields[g.Field] = values
	}
	in := values[g.Value]
	if in == nil {
		in = new(numbers)
		values[strings.Clone(g.Value)] = in
	}
	before := in.len()
	in.add(n, len(s.names.text))
	s.names.groups[n] += uint32(in.len() - before)
}

// Remove takes a member out of a group.
func (s *Set) Remove(g Group, member string) {
	if n, ok := s.names.of[member]; ok {
		s.leave(g, n)
		s.names.release(n)
	}
}

func (s *Set) leave(g Group, n uint32) {
	in := s.group(g)
	if in == nil || !in.has(n) {
		return
	}
	s.names.groups[n]--
	if in.remove(n); in.len() > 0 {
		return
	}
	if delete(s.fields[g.Field], g.Value); len(s.fields[g.Field]) == 0 {
		delete(s.fields, g.Field)
	}
}

// Change replaces a member's groups: it leaves those only in before and joins those only in after. It returns the
// member's number, which is free when the member is in no group now.
func (s *Set) Change(member string, before, after []Group) (n uint32) {
	n = s.names.number(member)
	if slices.Equal(before, after) {
		s.names.release(n)
		return n
	}
	for _, g := range after {
		if !slices.Contains(before, g) {
			s.join(g, n)
		}
	}
	for _, g := range before {
		if !slices.Contains(after, g) {
			s.leave(g, n)
		}
	}
	s.names.release(n)
	return n
}

// Has reports whether a member is in a group.
func (s *Set) Has(g Group, member string) bool {
	n, ok := s.names.of[member]
	in := s.group(g)
	return ok && in != nil && in.has(n)
}

// Count returns the number of members of a group.
func (s *Set) Count(g Group) int { return s.group(g).len() }

// Values returns the values of a field that have members, in an unspecified order.
func (s *Set) Values(field string) iter.Seq[string] { return maps.Keys(s.fields[field]) }

// Distinct returns how many values of a field have members.
func (s *Set) Distinct(field string) int { return len(s.fields[field]) }

// Ascend returns the members of a group that sort after a member, in order; empty means all.
func (s *Set) Ascend(g Group, after string) iter.Seq[string] {
	return func(yield func(string) bool) { s.ascend(s.group(g), after, yield) }
}

// Union returns the members of any of the groups that sort after a member, in order, each once.
func (s *Set) Union(groups []Group, after string) iter.Seq[string] {
	if len(groups) == 1 {
		return s.Ascend(groups[0], after)
	}
	return func(yield func(string) bool) {
		var sets []*numbers
		for _, g := range groups {
			if in := s.group(g); in != nil {
				sets = append(sets, in)
			}
		}
		all := borrow()
		defer giveBack(all)
		unite(all, sets)
		s.ascend(&numbers{dense: all}, after, yield)
	}
}

// ascend yields the members of a set that sort after a member. A small set is sorted; a member of a large one is soon
// met in the order of all.
func (s *Set) ascend(in *numbers, after string, yield func(string) bool) {
	size, all := in.len(), len(s.names.of)
	if size == 0 {
		return
	}
	if size*size < 4*all {
		s.sorted(in, after, yield)
		return
	}
	within := in.dense
	if within == nil {
		within = borrow()
		defer giveBack(within)
		in.into(within)
	}
	for n := range s.names.from(pivot(after)) {
		if (size == all || within.has(n)) && !yield(s.names.text[n]) {
			return
		}
	}
}

func (s *Set) sorted(in *numbers, after string, yield func(string) bool) {
	members := make([]string, 0, in.len())
	for n := range in.all() {
		if text := s.names.text[n]; text > after || after == "" {
			members = append(members, text)
		}
	}
	slices.Sort(members)
	for _, m := range members {
		if !yield(m) {
			return
		}
	}
}

// pivot returns the least text that sorts after a member; the empty text for none.
func pivot(after string) string {
	if after == "" {
		return ""
	}
	return after + "\x00"
}

// Prefixed returns the members of a group that start with prefix and sort after a member, in order.
func (s *Set) Prefixed(g Group, prefix, after string) iter.Seq[string] {
	return func(yield func(string) bool) {
		in := s.group(g)
		if in == nil {
			return
		}
		for n := range s.names.from(max(prefix, pivot(after))) {
			text := s.names.text[n]
			if !strings.HasPrefix(text, prefix) || in.has(n) && !yield(text) {
				return
			}
		}
	}
}

// Numbers identify members in arrays beside a set: while a member is in a group, it has one number below Span.

// Span returns the number behind the largest one.
func (s *Set) Span() int { return len(s.names.text) }

// Number returns the number of a member; ok is false when it is in no group.
func (s *Set) Number(member string) (n uint32, ok bool) {
	n, ok = s.names.of[member]
	return n, ok
}

// Member returns the member with a number.
func (s *Set) Member(n uint32) string { return s.names.text[n] }

// Numbers returns the numbers of the members of a group, the smallest first.
func (s *Set) Numbers(g Group) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if in := s.group(g); in != nil {
			in.all()(yield)
		}
	}
}
