package rolling

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// placing divides the targets of a plan into waves.
type placing struct{ *planner }

// place divides the targets into waves. The waves depend on what changes, so that a plan and the rollout that carries
// its guard have the same ones.
func (p placing) place() *apiv1.Refusal {
	p.stageUndo()
	if why := cmp.Or(unknownField(p.Strategy), p.hurried()); why != nil {
		return why
	}
	stages, why := p.grouped()
	if why != nil {
		return why
	}
	var candidates []rollout.Candidate
	owed := p.owedServers()
	for _, id := range p.serverIDs() {
		s, _ := p.reader.Server(id)
		candidates = append(candidates, rollout.Candidate{
			ServerID: id, Fields: p.fields(s), Owed: owed[id], Stages: stages(s),
		})
		for _, c := range p.byServer[id].Changes {
			p.lines = append(p.lines, fmt.Sprintf("%s %s %s %s to %s %s %d", id, c.Agent, c.From.GetId(),
				c.FromConfiguration, c.To.GetId(), c.ToConfiguration, rollout.StepOf(c)))
		}
	}
	layout, err := p.waves(candidates)
	if err != nil {
		return fault.RefusalOf(err)
	}
	if why := cmp.Or(p.empty(layout), p.ungated(layout)); why != nil {
		return why
	}
	p.Waves, p.Owed, p.Strategy = layout.Waves, layout.Owed, rollout.Filled(p.Strategy)
	if len(layout.Waves) > 0 { // where all servers are owed, what was asked for stays
		p.Strategy.Stages = layout.Stages
	}
	for _, at := range layout.Placements {
		t := p.byServer[at.ServerID]
		t.Wave, t.Because, t.Place = at.Wave, at.Because, uint32(len(p.Targets))
		p.Targets = append(p.Targets, t)
		p.lines = append(p.lines, fmt.Sprintf("%s %d", at.ServerID, at.Wave))
	}
	return nil
}

// waves divides the candidates. Where no server is left that the stages of the rollout that is undone were about, many
// servers get the stages of an undo that has none.
func (p placing) waves(candidates []rollout.Candidate) (rollout.Layout, error) {
	hash := hex.EncodeToString(p.hash())
	layout, err := rollout.Waves(candidates, p.Strategy, hash)
	if err != nil || !p.inherited || len(layout.Waves) != 1 || len(layout.Stages) > 0 {
		return layout, err
	}
	p.Strategy.Stages = nil
	p.stageUndo()
	return rollout.Waves(candidates, p.Strategy, hash)
}

// ungated refuses a strategy by which another actor approves, where no wave would wait for that.
func (p placing) ungated(l rollout.Layout) *apiv1.Refusal {
	s := p.Strategy
	gated := len(l.Waves) > 1 || len(l.Stages) > 0 && l.Stages[0].Approve
	if !s.GetApproveByOther() || p.inherited || len(p.byServer) == 0 || gated {
		return nil
	}
	message, try := "bad strategy: all servers would be in one wave, which waits for no approval", "--waves '1; rest'"
	if len(l.Waves) == 0 {
		message, try = "bad strategy: no server can be changed now, and those that come back wait for no approval",
			"the command once a server is online"
	}
	return &apiv1.Refusal{Code: code.BadStrategy, Message: message, Try: try}
}

// hurried refuses an emergency that is to soak, or to wait for approvals: it does neither. An undo may
// have them from the rollout that it undoes, and passes over them.
func (p placing) hurried() *apiv1.Refusal {
	s := p.Strategy
	if !s.GetEmergency() || p.inherited {
		return nil
	}
	soaks := s.Soak.AsDuration() > 0
	approved := s.Approve || s.ApproveByOther
	for _, stage := range s.Stages {
		soaks, approved = soaks || stage.Soak.AsDuration() > 0, approved || stage.Approve
	}
	message := "bad strategy: an emergency has no soak"
	switch {
	case approved:
		message = "bad strategy: an emergency waits for no approval"
	case !soaks:
		return nil
	}
	return &apiv1.Refusal{Code: code.BadStrategy, Message: message, Try: "the command without one of the two"}
}

// unknownField refuses a strategy with a field that servers do not have: every server would have the same value of it.
func unknownField(s *rolloutv1.Strategy) *apiv1.Refusal {
	known := slices.Sorted(selector.FieldNames())
	names := slices.DeleteFunc(append(slices.Clone(s.GetCover()), s.GetSpread()), func(name string) bool {
		return name == "" || name == "agents" // which the planner adds
	})
	for _, k := range s.GetKeep() {
		names = append(names, k.Field)
	}
	for _, name := range names {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "label.") {
			return &apiv1.Refusal{
				Code: code.BadStrategy, Message: fmt.Sprintf("servers have no field %q; a label is label.NAME", name),
				Nearest: nearest.Name(name, slices.Values(known)),
			}
		}
	}
	return nil
}

// Fields returns the fields of a server by which waves are made.
func Fields(s *serverv1.Server) map[string]string {
	out := map[string]string{}
	for name := range selector.FieldNames() {
		out[name] = selector.Value(s, name)
	}
	for k, v := range s.GetLabels() {
		out["label."+k] = v
	}
	return out
}

func (p placing) fields(s *serverv1.Server) map[string]string {
	var agents []string
	for i := range p.reader.InstancesOf(s.GetId()) {
		agents = append(agents, i.Agent)
	}
	out := Fields(s)
	out["agents"] = strings.Join(agents, ",")
	return out
}

// owed reports whether a server cannot be changed now, or would be blamed for what was broken before. An undo changes
// broken servers first of all.
func (p *planner) owed(s *serverv1.Server) bool {
	if !present(s) {
		return true
	}
	if p.Undoes != "" {
		return false
	}
	for _, c := range p.byServer[s.Id].Changes {
		if i, _ := p.reader.Instance(s.Id, c.Agent); unwell(c, i) {
			return true
		}
	}
	return false
}

// owedServers returns the servers that are owed, also those on which the last change of an agent failed before this
// one: what they do is no damage of the rollout. A rollout that would change no other server is for those that failed,
// and tries them in its waves. An undo changes them as it does broken ones.
func (p placing) owedServers() map[string]bool {
	owed, others := map[string]bool{}, false
	var failed []string
	for _, id := range p.serverIDs() {
		s, _ := p.reader.Server(id)
		switch {
		case p.owed(s):
			owed[id] = true
		case p.Undoes == "" && p.failed(id):
			failed = append(failed, id)
		default:
			others = true
		}
	}
	for _, id := range failed {
		owed[id] = others
	}
	return owed
}

// failed reports whether the last change failed of an agent that changes on a server, and not to be repaired.
func (p placing) failed(server string) bool {
	return slices.ContainsFunc(p.byServer[server].Changes, func(c *rolloutv1.Change) bool {
		i, _ := p.reader.Instance(server, c.Agent)
		return !c.Repair && i.GetState() == instancev1.State_STATE_FAILED
	})
}
