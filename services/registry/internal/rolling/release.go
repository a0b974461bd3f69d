package rolling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// mostDrafts bounds a release, which is one atomic batch: a fact for each change, and an answer for each intent.
const mostDrafts = topology.MaxBatch - 100

// Past returns the record of an intent that is undone, or nil when it is unknown.
type Past func(id string) *intentv1.Record

// Run is a rollout on its way.
type Run struct {
	Rollout *rolloutv1.Rollout
	Ask     *intentv1.Rollout // as it was published
	Note    string            // why, as it was published
	At      time.Time
	Past    Past
	Under   ledger.Guard // of the first derived intent; empty for none
}

// group is servers that one derived intent changes.
type group struct {
	change  int // by position
	servers []string
	kept    *apiv1.Refusal // why the servers are left as they are; nil when the change is made
	version string         // which the change brings; empty when it brings none
}

// Release returns the drafts that a decision releases, and the servers that they change: as many as fit in one atomic
// batch.
func Release(r Reader, run Run, d rollout.Decision) (drafts []ledger.Draft, taken []string) {
	wave, servers := d.Wave, d.Release
	groups := map[string]*group{}
	room, step := mostDrafts, max(d.Step, 1)
	for _, id := range servers {
		t, ok := r.Target(run.Rollout.Id, id)
		if !ok {
			break
		}
		keys, kept := keysOf(t, step), map[string]*apiv1.Refusal{}
		if whole := run.keeps(r, t, step); whole != nil || len(t.UndoIntentIds) > 0 {
			keys, kept = run.splitKept(r, t, keys, whole)
		}
		for key := range keys {
			if groups[key] == nil {
				room-- // its answer
			}
		}
		if room -= len(keys); room < 0 {
			break
		}
		taken = append(taken, id)
		for key, n := range keys {
			if groups[key] == nil {
				groups[key] = &group{change: n, kept: kept[key], version: t.Changes[n].To.GetVersion()}
			}
			groups[key].servers = append(groups[key].servers, id)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		first, _ := r.Target(run.Rollout.Id, g.servers[0])
		if in := run.intent(first, g); in != nil {
			drafts = append(drafts, run.derive(r, in, wave, g)...)
			run.Under = ledger.Guard{}
		}
	}
	return drafts, taken
}

// splitKept returns the changes of a target by key, with keys of their own for those that are not made, and why these
// are not: whole is the reason of all of them, or nil.
func (run Run) splitKept(r Reader, t *rolloutv1.Target, keys map[string]int, whole *apiv1.Refusal) (
	map[string]int, map[string]*apiv1.Refusal,
) {
	out, kept := map[string]int{}, map[string]*apiv1.Refusal{}
	for key, n := range keys {
		if why := cmp.Or(whole, run.keepsAlone(r, t, n)); why != nil {
			key += " " + t.ServerId
			kept[key] = why
		}
		out[key] = n
	}
	return out, kept
}

// every matches each fact about each rollout.
var every = ledger.KeySubject(ledger.Rollout, "*")

// Alone returns the guard of a release by a rollout that has keep budgets of its own, while another one has not ended:
// two that are decided on one view would each take away the last server that the budgets allow, so one of them is
// decided again. The budgets of environments need none, since the task-dispatcher admits by them.
func Alone(r Reader, record *rolloutv1.Rollout) (g ledger.Guard) {
	if len(record.Strategy.GetKeep()) == 0 {
		return g
	}
	others := false
	for _, other := range r.Rollouts() {
		g.Sequence = max(g.Sequence, r.Sequence(ledger.Rollout, other.Id))
		others = others || other.Id != record.Id && mayRelease(other)
	}
	if !others {
		return ledger.Guard{}
	}
	g.Subject = every
	return g
}

// mayRelease reports whether a rollout may release servers: also one that succeeded and owes some.
func mayRelease(r *rolloutv1.Rollout) bool {
	for _, w := range append(slices.Clone(r.Waves), r.Owed) {
		if r.State == rolloutv1.State_STATE_SUCCEEDED &&
			w.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_OWED)] > 0 {
			return true
		}
	}
	return !rollouts.Ended(r.State)
}

// keysOf returns, for each change of a step of a target, the name of the intent that it shares with others, and the
// change's position.
func keysOf(t *rolloutv1.Target, step uint32) map[string]int {
	keys := map[string]int{}
	for n, c := range t.Changes {
		if rollout.StepOf(c) != step {
			continue
		}
		key := fmt.Sprintf("%06d %s %s", n, c.Agent, c.To.GetId()) // they are answered in this order
		if n < len(t.UndoIntentIds) {
			key += " " + t.UndoIntentIds[n]
		}
		keys[key] = n
	}
	return keys
}

// intent returns what is asked of the servers of a group.
func (run Run) intent(t *rolloutv1.Target, g *group) *intentv1.Intent {
	on := &intentv1.Selector{Servers: slices.Sorted(slices.Values(g.servers))}
	c := t.Changes[g.change]
	switch {
	case g.change >= len(t.UndoIntentIds):
	case t.UndoIntentIds[g.change] != "":
		return undoOf(t.UndoIntentIds[g.change], on)
	case c.To == nil:
		return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: c.Agent, On: on}}}
	default:
		image := &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: c.To.GetId()}}
		up := &intentv1.Upgrade{Agent: c.Agent, Image: image, On: on}
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
	}
	for _, step := range run.Ask.GetSteps() {
		in := Ask(step, on)
		if insists(in) { // it was planned for servers on which the same failed before
			in.Note = run.Note
		}
		if bring(in, c.To) == c.Agent {
			return in
		}
	}
	return nil
}

// bring has a step bring one image where it brings any, and returns the step's agent.
func bring(in *intentv1.Intent, to *imagev1.Ref) (agent string) {
	choice := &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: to.GetId()}}
	switch ask := in.GetAsk().(type) {
	case *intentv1.Intent_Install:
		ask.Install.Image = choice
		return ask.Install.Agent
	case *intentv1.Intent_Upgrade:
		if !ask.Upgrade.Again || ask.Upgrade.Image != nil {
			ask.Upgrade.Image = choice
		}
		return ask.Upgrade.Agent
	case *intentv1.Intent_Configure:
		return ask.Configure.Agent
	case *intentv1.Intent_Remove:
		return ask.Remove.Agent
	}
	return ""
}

// insists reports whether an operator named what a step brings.
func insists(in *intentv1.Intent) bool {
	return image.Named(in.GetInstall().GetImage()) || image.Named(in.GetUpgrade().GetImage()) ||
		in.GetConfigure() != nil && !in.GetConfigure().Repair
}

func undoOf(id string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id, On: on}}}
}

// derive decides a derived intent about a group of servers. Its id follows from what it is about, so that two
// registries derive one.
func (run Run) derive(r Reader, in *intentv1.Intent, wave uint32, g *group) []ledger.Draft {
	in.Source = &intentv1.Source{RolloutId: run.Rollout.Id, Wave: wave, Version: g.version}
	ask := intent.Ask{
		Actor: run.Rollout.Actor, Intent: in, At: run.At, Due: slices.Sorted(slices.Values(g.servers)),
		Back: run.Rollout.Undoes != "", Under: run.Under,
	}
	ask.Verb = intent.Verb(in)
	parts := []string{"rollout", run.Rollout.Id, ask.Verb}
	if id := in.GetUndo().GetIntentId(); id != "" {
		ask.Undone = run.Past(id)
		parts = append(parts, id)
	}
	for _, id := range ask.Due {
		t, _ := r.Target(run.Rollout.Id, id)
		agent := ""
		for n, c := range t.GetChanges() {
			if n == 0 || intent.AgentOf(in) == c.Agent {
				agent = c.Agent
			}
		}
		if t.GetNotRestoredBy() != "" { // another try
			parts = append(parts, t.NotRestoredBy)
		}
		parts = append(parts, id, agent, strconv.FormatUint(r.Sequence(ledger.Instance, ledger.Key(id, agent)), 10))
	}
	ask.ID = ident.From(parts...)
	if g.kept != nil {
		return []ledger.Draft{intent.Answer(ask, &intentv1.Refused{Intent: in, Refusal: g.kept})}
	}
	return intent.Decide(Ahead(r, run.Ask.GetThen()), ask).Drafts
}

// restores returns the intents that are to be undone next on a broken server.
func restores(r Reader, t *rolloutv1.Target) (ids []string) {
	have := func(n int) (*instancev1.Instance, bool) { return r.Instance(t.ServerId, t.Changes[n].Agent) }
	holds := func(n int) bool {
		i, ok := have(n)
		return !ok && t.Changes[n].To == nil || ok && i.IntentId == t.IntentIds[n]
	}
	settled := func(n int) bool {
		i, ok := have(n)
		return !ok || i.State == instancev1.State_STATE_CONVERGED || i.State == instancev1.State_STATE_FAILED
	}
	for _, n := range rollout.Restores(t, holds, settled) {
		ids = append(ids, t.IntentIds[n])
	}
	return ids
}

// Restore returns the drafts that make what ran before wanted again on servers that a rollout broke, as many as fit in
// one atomic batch: what was asked wins over what failed.
func Restore(r Reader, run Run, broken []*rolloutv1.Target) (drafts []ledger.Draft) {
	byIntent := map[string][]string{}
	wave, room := uint32(0), mostDrafts
	for _, t := range broken {
		next := restores(r, t)
		for _, id := range next {
			if byIntent[id] == nil {
				room-- // its answer
			}
		}
		if room -= len(next); room < 0 {
			break
		}
		wave = max(wave, t.Wave)
		for _, id := range next {
			byIntent[id] = append(byIntent[id], t.ServerId)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byIntent)) {
		in := undoOf(id, &intentv1.Selector{Servers: slices.Sorted(slices.Values(byIntent[id]))})
		drafts = append(drafts, run.derive(r, in, wave, &group{servers: byIntent[id]})...)
	}
	return drafts
}
