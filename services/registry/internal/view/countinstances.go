package view

import (
	"slices"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// countInstances counts the instances that pass a filter, which has these terms about their servers. It reads the shape
// of each instance and the group of its server, and no record of an instance; ok is false when a field is of neither,
// or has too many values.
func (v *search) countInstances(q InstanceFilter, servers []term[*serverv1.Server], t *tally) (ok bool) {
	if slices.Contains(t.by, byServer) || slices.Contains(t.by, byWayBack) {
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
func (v *search) divided(fields []string) (ofShape, ofServer []string) {
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
func (v *search) groupShapes(q InstanceFilter, fields []string) (g grouped) {
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
func (v *search) countCells(shapes, servers grouped) []uint64 {
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
