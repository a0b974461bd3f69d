package rollouts

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/keep"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
)

// takeOthers adds to a world what holds its rollout up beside its own strategy: keep budgets, windows and holds of
// environments, and the other rollouts that have not ended. It must run inside Read.
func (p *Past) takeOthers(w *forecast.World, but string) {
	p.takeBudgets(w)
	p.takeWindows(w)
	index := map[string]int{}
	for i, s := range w.Servers {
		index[s.ServerID] = i
	}
	for _, r := range p.records.View.Rollouts() {
		if r.Id == but || rollouts.Ended(r.State) {
			continue
		}
		w.Busy += inState(r, rolloutv1.TargetState_TARGET_STATE_REACHED)
		if r.State == rolloutv1.State_STATE_RUNNING {
			w.Beside += inState(r, rolloutv1.TargetState_TARGET_STATE_PENDING)
		}
		for t := range p.records.View.TargetsOf(r.Id, rolloutv1.TargetState_TARGET_STATE_REACHED) {
			if i, ours := index[t.ServerId]; ours {
				w.Servers[i].Busy = true
			} else if !p.records.View.Works(t.ServerId) {
				p.comesBack(w, t.ServerId)
			}
		}
	}
}

// comesBack counts a server that another rollout changes as one that works: it does by the time that it matters.
func (p *Past) comesBack(w *forecast.World, server string) {
	_, groups := p.records.View.Budgets(server)
	for _, g := range groups {
		if c, counted := w.Budgets.Outside[g]; counted && c.Working < c.All {
			w.Budgets.Outside[g] = keep.Count{All: c.All, Working: c.Working + 1}
		}
	}
}

// inState returns how many servers of a rollout are in a state.
func inState(r *rolloutv1.Rollout, s rolloutv1.TargetState) (n int) {
	for _, wave := range r.Waves {
		n += int(wave.GetCounts()[uint32(s)])
	}
	return n + int(r.Owed.GetCounts()[uint32(s)])
}

// takeWindows adds the windows and holds of the environments of a world's servers. It must run inside Read.
func (p *Past) takeWindows(w *forecast.World) {
	of, environments := map[string]string{}, map[string]*environmentv1.Environment{}
	for _, s := range w.Servers {
		name := s.Fields["env"]
		e, ok := p.records.View.Environment(name)
		if !ok || len(e.GetWindows())+len(e.GetFreezes()) == 0 {
			continue
		}
		if of[s.ServerID] = name; environments[name] == nil {
			environments[name] = proto.CloneOf(e)
		}
	}
	if len(of) == 0 {
		return
	}
	known := map[string]door{}
	w.Closed = func(server string, at time.Time) (time.Time, string) {
		name, has := of[server]
		if !has {
			return time.Time{}, ""
		}
		d, ok := known[name]
		if !ok || !d.holds(at) {
			d = door{at, window.At(environments[name], at)}
			known[name] = d
		}
		return d.state.Until, d.state.Why
	}
}

// door is whether an environment was open at a time.
type door struct {
	at    time.Time
	state window.State
}

// holds reports whether the same is known of another time: what is closed opens at a known time, and windows begin and
// end with a minute.
func (d door) holds(at time.Time) bool {
	if at.Before(d.at) {
		return false
	}
	if !d.state.Open {
		return d.state.Until.IsZero() || at.Before(d.state.Until)
	}
	return at.Truncate(time.Minute).Equal(d.at.Truncate(time.Minute))
}
