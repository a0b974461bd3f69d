package index

import (
	"iter"
	"slices"
	"sort"
)

// chunkSize is the largest number of members of a chunk.
const chunkSize = 512

// names numbers the members of a set, and keeps them in order.
type names struct {
	of     map[string]uint32
	text   []string   // by number
	groups []uint32   // by number: how many groups it is in
	free   []uint32   // numbers that are not in use
	order  [][]uint32 // every number by its text, in chunks that are not empty
}

// number returns the number of a member, a new one if it has none.
func (d *names) number(member string) uint32 {
	if n, ok := d.of[member]; ok {
		return n
	}
	if d.of == nil {
		d.of = map[string]uint32{}
	}
	var n uint32
	if last := len(d.free) - 1; last >= 0 {
		n, d.free = d.free[last], d.free[:last]
		d.text[n] = member
	} else {
		n = uint32(len(d.text))
		d.text, d.groups = append(d.text, member), append(d.groups, 0)
	}
	d.of[member] = n
	d.insert(n)
	return n
}

// release frees the number of a member that is in no group.
func (d *names) release(n uint32) {
	if d.groups[n] > 0 {
		return
	}
	d.cut(n)
	delete(d.of, d.text[n])
	d.text[n] = ""
	d.free = append(d.free, n)
}

// place returns where the first member is that is not before a text; behind the last chunk when
// every member is.
func (d *names) place(text string) (chunk, at int) {
	chunk = sort.Search(len(d.order), func(c int) bool {
		members := d.order[c]
		return d.text[members[len(members)-1]] >= text
	})
	if chunk == len(d.order) {
		return chunk, 0
	}
	members := d.order[chunk]
	return chunk, sort.Search(len(members), func(n int) bool { return d.text[members[n]] >= text })
}

func (d *names) insert(n uint32) {
	chunk, at := d.place(d.text[n])
	if chunk == len(d.order) { // behind all: chunks that grow in order are full
		if chunk--; chunk < 0 || len(d.order[chunk]) == chunkSize {
			d.order = append(d.order, nil)
			chunk++
		}
		d.order[chunk] = append(d.order[chunk], n)
		return
	}
	members := slices.Insert(d.order[chunk], at, n)
	if len(members) > chunkSize {
		half := len(members) / 2
		d.order = slices.Insert(d.order, chunk+1, slices.Clone(members[half:]))
		members = members[:half]
	}
	d.order[chunk] = members
}

func (d *names) cut(n uint32) {
	chunk, at := d.place(d.text[n])
	if d.order[chunk] = slices.Delete(d.order[chunk], at, at+1); len(d.order[chunk]) == 0 {
		d.order = slices.Delete(d.order, chunk, chunk+1)
	}
}

// from returns the numbers of the members that are not before a text, in the order of their texts.
func (d *names) from(text string) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for chunk, at := d.place(text); chunk < len(d.order); chunk, at = chunk+1, 0 {
			for _, n := range d.order[chunk][at:] {
				if !yield(n) {
					return
				}
			}
		}
	}
}
