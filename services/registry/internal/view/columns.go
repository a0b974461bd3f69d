package view

import (
	"slices"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
)

// mostCells bounds the combinations of values of fields that are counted in a table.
const mostCells = 4 << 20

// grouped is every server by its values of some fields. Servers with the same values are in one group.
type grouped struct {
	values [][]string // of each group, in the order of the fields
	of     []uint32   // the group by the number of the server; behind them, that of instances whose server is unknown
}

// group groups the servers by fields. It reads the index of each field and no record; ok is false when the fields have
// too many values.
func (v *View) group(fields []string) (g grouped, ok bool) {
	g = grouped{values: [][]string{nil}, of: make([]uint32, v.serverBy.Span()+1)}
	for _, field := range fields {
		if g, ok = v.divide(g, field); !ok {
			return g, false
		}
	}
	return g, true
}

// keep takes the servers that do not pass out of their groups.
func (g grouped) keep(pass []bool) {
	for n, pass := range pass {
		if !pass {
			g.of[n] = noNumber
		}
	}
}

// divide divides groups by one more field.
func (v *View) divide(g grouped, field string) (out grouped, ok bool) {
	texts, value := []string{""}, make([]uint32, len(g.of))
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
		return g, false
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

// passing reports by number which servers pass terms. It looks only at the records of those that the indexes let pass,
// and only for terms that have no index.
func (v *View) passing(terms []term[*serverv1.Server]) []bool {
	met := make([]int, v.serverBy.Span())
	var rest []term[*serverv1.Server]
	indexed := 0
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
	pass := make([]bool, len(met)+1)
	for n, met := range met {
		if met < indexed {
			continue
		}
		if len(rest) == 0 && indexed > 0 {
			pass[n] = true
			continue
		}
		s, ok := v.servers.Get(v.serverBy.Member(uint32(n)))
		pass[n] = ok && meetsAll(rest, s)
	}
	return pass
}
