package view

import (
	"cmp"
	"slices"
	"strings"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// tally counts rows by the values of fields. It holds a group for each combination that there is.
type tally struct {
	by     []string
	groups map[string]uint64 // by the values, joined
	total  uint64
	key    []byte
}

func newTally(by []string) *tally { return &tally{by: by, groups: map[string]uint64{}} }

// betweenValues divides the values of a group. No value holds it.
const betweenValues = "\x00"

// add counts rows whose values are the results of value.
func (t *tally) add(rows uint64, value func(field string) string) {
	t.total += rows
	t.groups[string(t.keyOf(value))] += rows
}

// remove takes back one row that was counted.
func (t *tally) remove(value func(field string) string) {
	t.total--
	key := string(t.keyOf(value))
	if t.groups[key]--; t.groups[key] == 0 {
		delete(t.groups, key)
	}
}

// keyOf returns the key of the group with some values; the next call overwrites it.
func (t *tally) keyOf(value func(field string) string) []byte {
	t.key = t.key[:0]
	for n, field := range t.by {
		if n > 0 {
			t.key = append(t.key, betweenValues...)
		}
		t.key = append(t.key, value(field)...)
	}
	return t.key
}

// addValues counts rows with the values of all fields, in their order.
func (t *tally) addValues(rows uint64, values []string) {
	if rows > 0 {
		t.total += rows
		t.groups[strings.Join(values, betweenValues)] += rows
	}
}

// counts returns the largest groups, and how much is left out.
func (t *tally) counts(top int) *registryv1.Counts {
	c := &registryv1.Counts{Total: t.total, By: t.by}
	if len(t.by) == 0 {
		return c
	}
	for key, n := range t.groups {
		c.Groups = append(c.Groups, &registryv1.CountGroup{Values: strings.Split(key, betweenValues), Count: n})
	}
	slices.SortFunc(c.Groups, func(a, b *registryv1.CountGroup) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), slices.Compare(a.Values, b.Values))
	})
	if len(c.Groups) > top {
		for _, g := range c.Groups[top:] {
			c.Others += g.Count
		}
		c.OtherGroups = uint32(len(c.Groups) - top)
		c.Groups = c.Groups[:top]
	}
	return c
}

// rowsPerRead is how many rows are counted by number in the time in which one row is read.
const rowsPerRead = 16

// counting counts servers and instances by fields.
type counting struct{ *search }

// CountServers counts the servers that pass the filter, by fields that FieldName knows. It returns the largest groups.
func (v *counting) CountServers(q ServerFilter, by []string, top int) *registryv1.Counts {
	t, terms := newTally(by), v.serverTerms(q)
	if smallest(terms).size < v.servers.Len()/rowsPerRead || !v.countServers(terms, t) {
		for _, s := range v.serversOf(terms, "") {
			t.add(1, func(field string) string { return serverValue(s, field) })
		}
	}
	v.addLate(t, q)
	return t.counts(top)
}

// countServers counts the servers that pass terms by the groups of their fields; ok is false when those have too many
// values.
func (v *counting) countServers(terms []term[*serverv1.Server], t *tally) (ok bool) {
	g, ok := v.group(t.by)
	if !ok {
		return false
	}
	pass := v.passing(terms)
	defer giveBack(g.of)
	defer giveBack(pass)
	counts := make([]uint64, len(g.values))
	for n, pass := range pass {
		if pass == passes {
			counts[g.of[n]]++
		}
	}
	for of, n := range counts {
		t.addValues(n, g.values[of])
	}
	return true
}

// CountInstances counts the instances that pass the filter, by fields that FieldName knows. It returns the largest
// groups.
func (v *counting) CountInstances(q InstanceFilter, by []string, top int) *registryv1.Counts {
	return v.tallyInstances(q, by).counts(top)
}

func (v *counting) tallyInstances(q InstanceFilter, by []string) *tally {
	t, servers := newTally(by), v.instanceServerTerms(q)
	few := v.instances.Len() / rowsPerRead
	theirs := smallest(servers)
	if smallest(v.instanceTerms(q)).size < few || theirs != nil && theirs.size*v.each() < few ||
		!v.countInstances(q, servers, t) {
		for f := range v.found(q, "") {
			t.add(1, func(field string) string { return v.instanceValue(f.instance, f.server, field) })
		}
	}
	v.addLateInstances(t, q)
	return t
}

// countInstances counts the instances that pass a filter, which has these terms about their servers. It reads the shape
// of each instance and the group of its server, and no record of an instance; ok is false when a field is of neither,
// or has too many values.
func (v *counting) countInstances(q InstanceFilter, servers []term[*serverv1.Server], t *tally) (ok bool) {
	if slices.ContainsFunc(t.by, func(f string) bool { return f == byServer || f == byWayBack || f == byDrift }) {
		return false
	}
	ofShape, ofServer := v.divided(t.by)
	shapes := v.groupShapes(q, ofShape)
	if len(ofServer) == 0 && len(servers) == 0 {
		for n, s := range v.shapes.rows {
			if of := shapes.of[n]; of != noNumber {
				t.addValues(uint64(s.instances), shapes.values[of])
			}
		}
		return true
	}
	g, ok := v.group(ofServer)
	defer giveBack(g.of)
	if !ok || len(g.values)*len(shapes.values) > mostCells {
		return false
	}
	if len(servers) > 0 {
		pass := v.passing(servers)
		g.keep(pass)
		giveBack(pass)
	}
	for cell, n := range v.countCells(shapes, g) {
		if n == 0 {
			continue
		}
		fromShape, fromServer := shapes.values[cell%len(shapes.values)], g.values[cell/len(shapes.values)]
		t.add(n, func(field string) string {
			if at := slices.Index(ofShape, field); at >= 0 {
				return fromShape[at]
			}
			return fromServer[slices.Index(ofServer, field)]
		})
	}
	return true
}

// divided returns which fields are those of a shape or its agent, and which are those of a server.
func (v *counting) divided(fields []string) (ofShape, ofServer []string) {
	for _, field := range fields {
		if _, ok := v.shapeValue(instanceShape{}, field); ok {
			ofShape = append(ofShape, field)
		} else {
			ofServer = append(ofServer, field)
		}
	}
	return ofShape, ofServer
}

// groupShapes groups the shapes that pass a filter by fields; the others have noNumber.
func (v *counting) groupShapes(q InstanceFilter, fields []string) (g grouped) {
	g.of = make([]uint32, len(v.shapes.rows))
	for n, s := range v.shapes.rows {
		if g.of[n] = noNumber; s.instances == 0 || !s.shape.meets(q) || !v.agentMeets(s.shape, q) {
			continue
		}
		values := make([]string, len(fields))
		for at, field := range fields {
			values[at], _ = v.shapeValue(s.shape, field)
		}
		of := slices.IndexFunc(g.values, func(have []string) bool { return slices.Equal(have, values) })
		if of < 0 {
			of, g.values = len(g.values), append(g.values, values)
		}
		g.of[n] = uint32(of)
	}
	return g
}

// countCells counts the instances of each group of shapes on each group of servers.
func (v *counting) countCells(shapes, servers grouped) []uint64 {
	counts := make([]uint64, len(servers.values)*len(shapes.values))
	unknown := len(servers.of) - 1
	for n, shape := range v.shapes.of {
		if shape == noNumber || shapes.of[shape] == noNumber {
			continue
		}
		on := servers.of[min(int(v.shapes.servers[n]), unknown)]
		if on != noNumber {
			counts[int(on)*len(shapes.values)+int(shapes.of[shape])]++
		}
	}
	return counts
}
