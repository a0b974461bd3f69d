package rolling

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

const (
	// mostJoin is how many servers join a rollout in one step; the next one takes the next ones.
	mostJoin = 500
	// mostWaves bounds the waves that servers which join add to a rollout.
	mostWaves = 200
	// late is why a server that joined is in its wave.
	late = "late"
)

// JoinsAt returns the wave that servers which come to a rollout's selector join: the last one while it has not begun,
// or a new one behind it once it passed. It returns 0 while they wait for that, or once the rollout takes none.
func JoinsAt(r *rolloutv1.Rollout, now time.Time) uint32 {
	last := uint32(len(r.GetWaves()))
	switch {
	case r.GetUndoes() != "" || last == 0 || last >= mostWaves:
		return 0
	case r.State == rolloutv1.State_STATE_SUCCEEDED:
		if until := r.FirstSucceededAt.AsTime().Add(r.Strategy.GetJoinFor().AsDuration()); !now.Before(until) {
			return 0
		}
		return last + 1
	case r.State != rolloutv1.State_STATE_RUNNING:
		return 0
	case r.Waves[last-1].OpenedAt == nil && r.Strategy.GetApproveByOther() && r.Waves[last-1].ApprovedBy != "":
		return 0 // who approved it did not see them: they come behind it, with an approval of their own
	case r.Waves[last-1].OpenedAt == nil:
		return last
	case r.Waves[last-1].PassedAt != nil:
		return last + 1
	}
	return 0
}

// Join returns the fact by which servers join a rollout that came to its selector since it was planned, or nil. a is
// the rollout's own intent. They get what the rollout brings to the others, whatever is newest by now.
func Join(r Reader, record *rolloutv1.Rollout, a intent.Ask) *rolloutv1.Extended {
	wave := JoinsAt(record, a.At)
	if wave == 0 || r.Recording(record.Id) != "" {
		return nil // whom a plan that is being recorded changes is not known yet
	}
	came, brought := newcomers(r, record, a.Intent.GetRollout().GetOn())
	if len(came) == 0 || superseded(r, record) {
		return nil
	}
	a.Intent = proto.CloneOf(a.Intent)
	a.Intent.Strict, a.Intent.Guard = false, nil // who cannot join is left out
	q := a.Intent.GetRollout()
	q.On = &intentv1.Selector{Servers: came}
	pinned, ok := brought.pin(q.Steps)
	if !ok {
		return nil
	}
	p := newPlanner(r, a)
	p.Strategy, p.pinned = record.Strategy, pinned
	if p.steps(q) != nil && len(p.byServer) == 0 {
		return nil
	}
	return p.extension(record, wave)
}

// superseded reports whether a later rollout changed an agent on a server of a rollout: what was asked later wins.
func superseded(r Reader, record *rolloutv1.Rollout) bool {
	for _, other := range r.Rollouts() {
		if other.PlannedSequence <= record.PlannedSequence || other.Undoes != "" ||
			other.State == rolloutv1.State_STATE_ABORTED || other.State == rolloutv1.State_STATE_UNDONE {
			continue
		}
		for t := range r.Targets(other.Id, "") {
			if ours, ok := r.Target(record.Id, t.ServerId); ok && rollouts.Common(ours, t) != "" {
				return true
			}
		}
	}
	return false
}

// extension returns the fact that adds the planned servers, or as many of them as it holds.
func (p *planner) extension(record *rolloutv1.Rollout, wave uint32) *rolloutv1.Extended {
	out, place, size := &rolloutv1.Extended{}, uint32(0), 0
	for _, w := range append(slices.Clone(record.Waves), record.Owed) {
		place += w.GetServers()
	}
	for _, id := range p.serverIDs() {
		s, _ := p.reader.Server(id)
		if p.owed(s) || p.overlap(id) != nil || p.chosen(id, record) {
			continue // it joins once it is healthy and the other rollout ended
		}
		t := p.byServer[id]
		t.Wave, t.Because, t.Place = wave, late, place
		if size += proto.Size(t) + 8; len(out.Targets) == mostJoin || len(out.Targets) > 0 && size > partBytes {
			break
		}
		out.Targets, place = append(out.Targets, t), place+1
	}
	if len(out.Targets) == 0 {
		return nil
	}
	return out
}

// chosen reports whether a person changed an agent of a server since the rollout was planned, or it went: what was
// asked later wins. An agent that was not there before came with its server.
func (p *planner) chosen(id string, record *rolloutv1.Rollout) bool {
	for _, c := range p.byServer[id].Changes {
		i, ok := p.reader.Instance(id, c.Agent)
		if key := ledger.Key(id, c.Agent); !ok && p.reader.Sequence(ledger.Instance, key) > record.PlannedSequence {
			return true
		}
		if !ok || i.Before.GetImage() == nil || p.reader.Sequence(ledger.Intent, i.IntentId) < record.LastPartSequence {
			continue
		}
		if in, known := p.reader.Intent(i.IntentId); known && in.GetIntent().GetSource() == nil {
			return true
		}
	}
	return false
}

// brings is the versions that a rollout brings, by agent.
type brings map[string]map[string]bool

// newcomers returns the servers of a selector that a rollout does not have and that are there, and what the rollout
// brings to the others. It returns none where the view no longer has all targets of the rollout.
func newcomers(r Reader, record *rolloutv1.Rollout, on *intentv1.Selector) ([]string, brings) {
	targets, brought := map[string]bool{}, brings{}
	for t := range r.Targets(record.Id, "") {
		targets[t.ServerId] = true
		brought.add(t)
	}
	planned := int(record.Owed.GetServers())
	for _, w := range record.Waves {
		planned += int(w.Servers)
	}
	found, refusal := selector.Resolve(r, on)
	if refusal != nil || len(targets) != planned {
		return nil, nil
	}
	var came []string
	for _, s := range found.Servers {
		if !targets[s.Id] && present(s) {
			came = append(came, s.Id)
		}
	}
	return came, brought
}

func (b brings) add(t *rolloutv1.Target) {
	last := map[string]*rolloutv1.Change{}
	for _, c := range t.Changes {
		if have := last[c.Agent]; have == nil || rollout.StepOf(have) <= rollout.StepOf(c) {
			last[c.Agent] = c
		}
	}
	for agent, c := range last {
		if b[agent] == nil {
			b[agent] = map[string]bool{}
		}
		b[agent][c.GetTo().GetVersion()] = true
	}
}

// pin replaces each choice of an image by the version that the rollout brings, and returns the agents where it did. It
// reports false for one that brings several, from which nothing follows for another server.
func (b brings) pin(steps []*intentv1.Step) (pinned map[string]bool, ok bool) {
	pinned = map[string]bool{}
	for _, step := range steps {
		image := (**intentv1.ImageChoice)(nil)
		agent := intent.AgentOf(Ask(step, nil))
		switch c := step.Change.(type) {
		case *intentv1.Step_Install:
			image = &c.Install.Image
		case *intentv1.Step_Upgrade:
			image = &c.Upgrade.Image
		}
		if image == nil || (*image).GetImageId() != "" || (*image).GetVersion() != "" {
			continue
		}
		var version string
		for v := range b[agent] {
			version = strings.Clone(v)
		}
		if len(b[agent]) != 1 || version == "" {
			return nil, false
		}
		pinned[agent] = true
		*image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	}
	return pinned, true
}
