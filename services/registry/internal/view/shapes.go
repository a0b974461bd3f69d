package view

import (
	"slices"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// instanceShape is the fields of an instance that have few values. A fleet has few shapes, so the view keeps the shape
// of each instance as a number, and counts instances without a look at their rows.
type instanceShape struct {
	agent, image, version, wantedImage, wantedVersion string

	state       instancev1.State
	health      instancev1.Health
	notAtWanted bool
	byHand      bool // an executor that was installed on its machine
}

func shapeOf(i *instancev1.Instance) instanceShape {
	return instanceShape{
		agent: i.GetAgent(), image: i.GetObserved().GetId(), version: i.GetObserved().GetVersion(),
		wantedImage: i.GetWanted().GetId(), wantedVersion: i.GetWanted().GetVersion(),
		state: i.GetState(), health: i.GetHealth(), notAtWanted: notAtWanted(i),
	}
}

// value returns a field of the instances of a shape; ok is false for a field that a shape does not have.
func (s instanceShape) value(field string) (value string, ok bool) {
	switch field {
	case byAgent:
		return s.agent, true
	case byImage:
		return s.image, true
	case byVersion:
		return s.version, true
	case "wanted-image":
		return s.wantedImage, true
	case "wanted-version":
		return s.wantedVersion, true
	case byState:
		return stateWord(s.state), true
	case byHealth:
		return healthWord(s.health), true
	}
	return "", false
}

// noNumber is the number of no shape, and of no server.
const noNumber = ^uint32(0)

// shapes is the shape of each instance, and how many instances have each shape.
type shapes struct {
	numbers map[instanceShape]uint32
	rows    []shapeRow // by number
	free    []uint32   // numbers of shapes that no instance has

	// By the number that an instance has in its index. They are apart, since a count reads all of them.
	of      []uint32 // the number of the instance's shape
	servers []uint32 // the number of its server; noNumber while the view has no record of it
}

type shapeRow struct {
	shape     instanceShape
	instances int
}

// set records that an instance is on a server and has a shape; nil records that it is gone.
func (s *shapes) set(instance uint32, shape *instanceShape, server uint32) {
	for int(instance) >= len(s.of) {
		s.of, s.servers = append(s.of, noNumber), append(s.servers, noNumber)
	}
	before, now := s.of[instance], noNumber
	if shape != nil {
		now = s.join(*shape)
	}
	s.of[instance], s.servers[instance] = now, server
	s.leave(before)
}

func (s *shapes) join(shape instanceShape) uint32 {
	n, ok := s.numbers[shape]
	if !ok {
		if s.numbers == nil {
			s.numbers = map[instanceShape]uint32{}
		}
		if last := len(s.free) - 1; last >= 0 {
			n, s.free = s.free[last], s.free[:last]
		} else {
			n = uint32(len(s.rows))
			s.rows = append(s.rows, shapeRow{})
		}
		s.numbers[shape], s.rows[n].shape = n, shape
	}
	s.rows[n].instances++
	return n
}

func (s *shapes) leave(n uint32) {
	if n == noNumber {
		return
	}
	if s.rows[n].instances--; s.rows[n].instances == 0 {
		delete(s.numbers, s.rows[n].shape)
		s.rows[n].shape = instanceShape{}
		s.free = append(s.free, n)
	}
}

// meets reports whether the instances of a shape pass a filter, but for what it asks of their agents and servers.
func (s instanceShape) meets(q InstanceFilter) bool {
	is := func(want string, have ...string) bool { return want == "" || slices.Contains(have, want) }
	return (q.Executors || !s.byHand) && is(q.Agent, s.agent) && is(q.ImageID, s.image, s.wantedImage) &&
		is(q.Version, s.version, s.wantedVersion) && (q.State == 0 || s.state == q.State) &&
		(q.Health == 0 || s.health == q.Health) && (!q.NotAtWanted || s.notAtWanted)
}

// agentMeets reports whether the agent of the instances of a shape passes a filter.
func (v *filters) agentMeets(s instanceShape, q InstanceFilter) bool {
	return (q.Application == "" || row(v.agents, s.agent).GetApplication() == q.Application) &&
		(q.Kind == agentv1.Kind_KIND_UNSPECIFIED || v.kindOf(s.agent, s.byHand) == q.Kind)
}

// kindOf returns the kind of an instance's agent; an executor needs no record of an agent.
func (v *fleet) kindOf(agent string, byHand bool) agentv1.Kind {
	if byHand {
		return agentv1.Kind_KIND_SELF
	}
	return row(v.agents, agent).GetKind()
}

// shapeValue returns a field of the instances of a shape, or of their agent; ok is false for any other field.
func (v *counting) shapeValue(s instanceShape, field string) (value string, ok bool) {
	switch field {
	case byApplication:
		return row(v.agents, s.agent).GetApplication(), true
	case byKind:
		return agentKindWord(v.kindOf(s.agent, s.byHand)), true
	}
	return s.value(field)
}
