package view

import (
	"slices"
	"sync"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
)

// mostCells bounds the combinations of values of fields that are counted in a table.
const mostCells = 4 << 20

// spare keeps slices of numbers between counts. They are as long as the fleet is large: as garbage they had a view of a
// gigabyte collected every few seconds.
var spare sync.Pool

// borrow returns a slice of zeros, for giveBack.
func borrow(length int) []uint32 {
	if have, ok := spare.Get().(*[]uint32); ok && cap(*have) >= length {
		s := (*have)[:length]
		clear(s)
		return s
	}
	return make([]uint32, length)
}

// giveBack takes a slice that is no longer used.
func giveBack(s []uint32) {
	if s != nil {
		spare.Put(&s)
	}
}

// grouped is every server by its values of some fields. Servers with the same values are in one group.
type grouped struct {
	values [][]string // of each group, in the order of the fields
	// of is borrowed: the group by the number of the server; behind them, that of instances whose server is unknown.
	of []uint32
}

// group groups the servers by fields. It reads the index of each field and no record; ok is false when the fields have
// too many values. The numbers of the groups are borrowed.
func (v *counting) group(fields []string) (g grouped, ok bool) {
	g = grouped{values: [][]string{nil}, of: borrow(v.serverBy.Span() + 1)}
	for _, field := range fields {
		out, ok := v.divide(g, field)
		giveBack(g.of)
		if !ok {
			return grouped{}, false
		}
		g = out
	}
	return g, true
}

// keep takes the servers that do not pass out of their groups.
func (g grouped) keep(pass []uint32) {
	for n, pass := range pass {
		if pass == fails {
			g.of[n] = noNumber
		}
	}
}

// divide divides groups by one more field.
func (v *counting) divide(g grouped, field string) (out grouped, ok bool) {
	texts, value := []string{""}, borrow(len(g.of))
	if unknown := serverValue(nil, field); unknown != "" {
		texts, value[len(value)-1] = append(texts, unknown), 1
	}
	for text := range v.serverBy.Values(field) {
		if text == "" {
			continue
		}
		at := slices.Index(texts[:min(len(texts), 2)], text)
		if at < 0 {
			at, texts = len(texts), append(texts, text)
		}
		for n := range v.serverBy.Numbers(index.Group{Field: field, Value: text}) {
			value[n] = uint32(at)
		}
	}
	if len(g.values)*len(texts) > mostCells {
		giveBack(value)
		return grouped{}, false
	}
	known := make([]uint32, len(g.values)*len(texts)) // the group of a combination, and 1
	for n, was := range g.of {
		cell := &known[int(was)*len(texts)+int(value[n])]
		if *cell == 0 {
			out.values = append(out.values, append(slices.Clone(g.values[was]), texts[value[n]]))
			*cell = uint32(len(out.values))
		}
		value[n] = *cell - 1
	}
	out.of = value
	return out, true
}

// What passing returns of a server.
const fails, passes = 0, 1

// passing reports by number which servers pass terms, in a borrowed slice. It looks only at the records of those that
// the indexes let pass, and only for terms that have no index.
func (v *counting) passing(terms []term[*serverv1.Server]) []uint32 {
	met := borrow(v.serverBy.Span() + 1) // how many of the terms that have an index, in their order
	var rest []term[*serverv1.Server]
	indexed := uint32(0)
	for _, t := range terms {
		if !t.indexed {
			rest = append(rest, t)
			continue
		}
		for _, g := range t.groups {
			for n := range v.serverBy.Numbers(g) {
				if met[n] == indexed {
					met[n]++
				}
			}
		}
		indexed++
	}
	last := len(met) - 1 // unknown servers pass no term
	for n, terms := range met[:last] {
		met[n] = fails
		if terms == indexed && v.meets(uint32(n), rest, indexed > 0) {
			met[n] = passes
		}
	}
	met[last] = fails
	return met
}

// meets reports whether the server with a number, which is there if an index has it, meets terms.
func (v *counting) meets(n uint32, terms []term[*serverv1.Server], there bool) bool {
	if len(terms) == 0 && there {
		return true
	}
	s, ok := v.servers.Get(v.serverBy.Member(n))
	return ok && meetsAll(terms, s)
}
