package index

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
)

// leastDense is the size up to which a set of numbers stays a list.
const leastDense = 64

// numbers is a set of small numbers: a sorted list while it is sparse, and one bit for each number that there is while
// more than one number in 32 belongs to it. So a number takes some four bytes at most.
type numbers struct {
	list  []uint32
	dense *dense // instead of the list
}

// dense is a set of numbers with a bit for each.
type dense struct {
	words []uint64
	size  int
}

// reach makes room for so many words.
func (d *dense) reach(words int) {
	if missing := words - len(d.words); missing > 0 {
		d.words = append(d.words, make([]uint64, missing)...)
	}
}

func (d *dense) add(n uint32) {
	d.reach(int(n/64) + 1)
	if bit := uint64(1) << (n % 64); d.words[n/64]&bit == 0 {
		d.words[n/64] |= bit
		d.size++
	}
}

func (d *dense) remove(n uint32) {
	if d.has(n) {
		d.words[n/64] &^= 1 << (n % 64)
		d.size--
	}
}

func (d *dense) has(n uint32) bool {
	return int(n/64) < len(d.words) && d.words[n/64]>>(n%64)&1 == 1
}

// add puts a number into the set. span is how many numbers there are in all.
func (s *numbers) add(n uint32, span int) {
	if s.dense == nil {
		at, found := slices.BinarySearch(s.list, n)
		if found {
			return
		}
		if len(s.list) < leastDense || len(s.list) < span/32 {
			s.list = slices.Insert(s.list, at, n)
			return
		}
		s.dense = &dense{}
		s.into(s.dense)
		s.list = nil
	}
	s.dense.add(n)
}

// remove takes a number out of the set.
func (s *numbers) remove(n uint32) {
	if s.dense == nil {
		if at, found := slices.BinarySearch(s.list, n); found {
			s.list = slices.Delete(s.list, at, at+1)
		}
		return
	}
	s.dense.remove(n)
	if s.dense.size < max(leastDense, len(s.dense.words))/2 { // well below the density at which a list becomes dense
		s.list = slices.AppendSeq(make([]uint32, 0, s.dense.size), s.all())
		s.dense = nil
	}
}

func (s *numbers) has(n uint32) bool {
	if s.dense != nil {
		return s.dense.has(n)
	}
	_, found := slices.BinarySearch(s.list, n)
	return found
}

func (s *numbers) len() int {
	switch {
	case s == nil:
		return 0
	case s.dense != nil:
		return s.dense.size
	}
	return len(s.list)
}

// all returns the numbers, the smallest first.
func (s *numbers) all() iter.Seq[uint32] {
	if s.dense == nil {
		return slices.Values(s.list)
	}
	return func(yield func(uint32) bool) {
		for at, word := range s.dense.words {
			for ; word != 0; word &= word - 1 {
				if !yield(uint32(at*64 + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}

// into adds the numbers to a set with a bit for each.
func (s *numbers) into(d *dense) {
	if len(s.list) > 0 {
		d.reach(int(s.list[len(s.list)-1]/64) + 1)
	}
	for _, n := range s.list {
		d.add(n)
	}
}

// spare keeps sets that a list was read by. In a large index, each would leave as many bits of garbage as it has
// members.
var spare = sync.Pool{New: func() any { return &dense{} }}

// borrow returns an empty set, for giveBack.
func borrow() *dense {
	d := spare.Get().(*dense)
	d.words, d.size = d.words[:0], 0
	return d
}

// giveBack takes a set that is no longer used.
func giveBack(d *dense) { spare.Put(d) }

// unite adds the numbers that are in any of the sets to an empty one.
func unite(all *dense, sets []*numbers) {
	for _, s := range sets {
		if s.dense == nil {
			s.into(all)
			continue
		}
		all.reach(len(s.dense.words))
		for at, word := range s.dense.words {
			all.words[at] |= word
		}
	}
	all.size = 0
	for _, word := range all.words {
		all.size += bits.OnesCount64(word)
	}
}
