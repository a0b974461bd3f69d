package defaults

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// namedByReason is how many servers a reason names.
const namedByReason = 10

// Rows returns one row for each default of an environment, without counts, by agent.
func Rows(r Reader, e *environmentv1.Environment) []*registryv1.DefaultRow {
	var out []*registryv1.DefaultRow
	for _, agent := range Agents(r, e) {
		out = append(out, &registryv1.DefaultRow{
			Environment: e.Name, Agent: agent, Default: proto.CloneOf(e.Defaults[agent]), Servers: map[uint32]uint32{},
		})
	}
	return out
}

// Count adds the servers with some ids to the counts of a row. It leaves out servers that left the environment.
func Count(r Reader, row *registryv1.DefaultRow, servers []string, at time.Time) {
	e, _ := r.Environment(row.Environment)
	d := e.GetDefaults()[row.Agent]
	if d == nil {
		return // unset meanwhile
	}
	dueOn := []string{}
	for _, id := range servers {
		s, ok := r.Server(id)
		if !ok || !isMember(s, row.Environment) {
			continue
		}
		if state := stateOf(r, s, row.Agent, d); state != due {
			row.Servers[uint32(state)]++
			continue
		}
		dueOn = append(dueOn, id)
	}
	if len(dueOn) == 0 {
		return
	}
	p := intent.Plan(r, intent.Ask{Actor: d.Actor, Intent: asked(e, row.Agent, d), Due: dueOn, At: at})
	count(row, due, p.Changed)
	count(row, waiting, p.LeftOut)
	addReasons(row, p.Reasons)
}

// AddHeld counts servers on which a default is held as waiting, of all on which it is.
func AddHeld(r Reader, row *registryv1.DefaultRow, all int, servers []string) {
	n := min(uint32(len(servers)), row.Servers[uint32(due)]) // some may have got it meanwhile
	if n == 0 {
		return
	}
	if row.Servers[uint32(due)] -= n; row.Servers[uint32(due)] == 0 {
		delete(row.Servers, uint32(due))
	}
	count(row, waiting, n)
	addReasons(row, []*intentv1.Reason{{
		Code: code.TooWide, Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: n,
		ServerIds: servers[:min(namedByReason, len(servers))], First: Held(r, row.Environment, row.Agent, all),
	}})
}

func count(row *registryv1.DefaultRow, state registryv1.DefaultState, n uint32) {
	if n > 0 {
		row.Servers[uint32(state)] += n
	}
}

// addReasons adds reasons to those of a row, each code once.
func addReasons(row *registryv1.DefaultRow, more []*intentv1.Reason) {
	for _, m := range more {
		known := false
		for _, have := range row.Reasons {
			if have.Code == m.Code && have.Effect == m.Effect {
				have.Count += m.Count
				left := max(0, namedByReason-len(have.ServerIds))
				have.ServerIds = append(have.ServerIds, m.ServerIds[:min(left, len(m.ServerIds))]...)
				known = true
			}
		}
		if !known {
			row.Reasons = append(row.Reasons, proto.CloneOf(m))
		}
	}
}
