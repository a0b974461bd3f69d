package view

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// The view keeps so many rollouts that ended, and the targets of so many of them. The ledger has all.
const (
	keptRollouts = 200
	keptTargets  = 20
)

// byRollout is the field of the groups of targets.
const byRollout = "rollout"

func groupOfRollout(id string) index.Group { return index.Group{Field: byRollout, Value: id} }

func groupOfState(id string, s rolloutv1.TargetState) index.Group {
	return index.Group{Field: byRollout, Value: id + "/" + strconv.Itoa(int(s))}
}

func groupOfWave(id string, wave uint32, s rolloutv1.TargetState) index.Group {
	return index.Group{Field: byRollout, Value: id + "/" + strconv.Itoa(int(s)) + "/" + strconv.Itoa(int(wave))}
}

func groupSilent(id string) index.Group { return index.Group{Field: byRollout, Value: id + "/silent"} }

func groupUnrestored(id string) index.Group {
	return index.Group{Field: byRollout, Value: id + "/unrestored"}
}

func groupDue(id string) index.Group { return index.Group{Field: byRollout, Value: id + "/due"} }

func groupUnprimed(id string) index.Group {
	return index.Group{Field: byRollout, Value: id + "/unprimed"}
}

func targetGroups(id string, t *rolloutv1.Target) []index.Group {
	if t == nil {
		return nil
	}
	groups := []index.Group{
		groupOfRollout(id), groupOfState(id, t.State), {Field: byServer, Value: t.ServerId},
	}
	if rollout.NextStep(t) > 0 {
		groups = append(groups, groupDue(id))
	}
	if rollout.Unprimed(t) {
		groups = append(groups, groupUnprimed(id))
	}
	if rollout.SilentSince(t) != nil {
		groups = append(groups, groupSilent(id))
	}
	if t.State == rolloutv1.TargetState_TARGET_STATE_BROKEN && t.RestoredBy == "" && !rollout.Repairs(t) {
		groups = append(groups, groupUnrestored(id))
	}
	return groups
}

// reach is what rollouts reach. It tells the budgets and the faults what follows from that for them.
type reach struct {
	*tables
	*orders
	*budgets
	*faults
}

// applyRollout folds a fact about a rollout into its record and its targets.
func (v *reach) applyRollout(f ledger.Fact) bool {
	have := row(v.rollouts, f.Key)
	next, fit := rollouts.Apply(have, f)
	if own(v.rollouts, f, next, fit); !fit {
		return false
	}
	switch b := f.Body.(type) {
	case *rolloutv1.Planned:
		v.addTargets(next, b.Targets, f)
	case *rolloutv1.Extended:
		v.addTargets(next, b.Targets, f)
	case *rolloutv1.Released:
		for _, id := range b.ServerIds {
			t, _ := v.Target(f.Key, id)
			v.applyTarget(next, id, f, rollout.Event{
				Kind: rollout.Taken, Step: b.Step, UnhealthyBefore: v.unhealthy(t),
			})
		}
	case *rolloutv1.Primed:
		v.primed(next, b.ServerIds, f)
	case *rolloutv1.Silenced:
		for _, id := range b.ServerIds {
			v.applyTarget(next, id, f, rollout.Event{Kind: rollout.Silent})
		}
	case *rolloutv1.Halted:
		v.judgeHalt(next)
	case *rolloutv1.Succeeded:
		for _, t := range slices.Collect(v.TargetsOf(f.Key, rolloutv1.TargetState_TARGET_STATE_PENDING)) {
			v.applyTarget(next, t.ServerId, f, rollout.Event{Kind: rollout.Finished})
		}
	}
	rollout.Settle(next, f.At)
	if rollouts.Ended(next.State) {
		v.dropOldRollouts()
	}
	if len(next.Strategy.GetKeep()) > 0 || rollouts.Ended(next.State) {
		v.keepRollouts()
	}
	return true
}

func (v *reach) addTargets(r *rolloutv1.Rollout, targets []*rolloutv1.Target, f ledger.Fact) {
	for _, t := range targets {
		key := ledger.Key(r.Id, t.ServerId)
		if _, known := v.targets.Get(key); known {
			continue
		}
		t = proto.CloneOf(t) // it changes from now on, and the fact does not
		t.State, t.Since = rolloutv1.TargetState_TARGET_STATE_PENDING, v.shared.time(timestamppb.New(f.At))
		if t.Wave == 0 {
			t.State = rolloutv1.TargetState_TARGET_STATE_OWED
		}
		if why := v.taken(r, t); why != nil {
			t.State, t.Reason = rolloutv1.TargetState_TARGET_STATE_LEFT_OUT, why
		}
		for _, c := range t.Changes {
			c.Agent, c.From, c.To = v.shared.text(c.Agent), v.shared.ref(c.From), v.shared.ref(c.To)
			c.FromConfiguration = v.shared.text(c.FromConfiguration)
			c.ToConfiguration = v.shared.text(c.ToConfiguration)
		}
		t.Because = v.shared.text(t.Because)
		rollout.Place(r, t)
		v.targets.Put(key, t, f.Sequence)
		v.targetBy.Change(key, nil, targetGroups(r.Id, t))
		v.queueTarget(r.Id, t)
		if s := row(v.servers, t.ServerId); s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE {
			v.applyTarget(r, t.ServerId, f, rollout.Event{Kind: rollout.Away}) // it went since the plan was made
		}
	}
}

// taken returns why a rollout leaves a new target out, or nil: another one that has not ended may still change an agent
// on it. Of two that were recorded at the same time, the first one in the ledger has the server.
func (v *reach) taken(r *rolloutv1.Rollout, t *rolloutv1.Target) *apiv1.Refusal {
	for _, id := range v.RolloutsOn(t.ServerId) {
		other, theirs := row(v.rollouts, id), row(v.targets, ledger.Key(id, t.ServerId))
		if id == r.Undoes || r.Strategy.GetEmergency() || rollouts.Ended(other.GetState()) ||
			!rollouts.Open(theirs.GetState()) {
			continue
		}
		if agent := rollouts.Common(t, theirs); agent != "" {
			return refusal(ledger.Registry, code.RolloutOverlaps, fmt.Sprintf(
				"rollout %s (%s) changes agent %q on it too, and was recorded first", other.GetId(), other.GetTitle(),
				agent))
		}
	}
	return nil
}

// applyTarget applies an event to a target of a rollout.
func (v *reach) applyTarget(r *rolloutv1.Rollout, server string, f ledger.Fact, e rollout.Event) {
	e.At = f.At
	v.editTarget(r, server, f, func(t *rolloutv1.Target) { rollout.Apply(r, t, e) })
}

// editTarget changes a target of a rollout, and its groups with it.
func (v *reach) editTarget(r *rolloutv1.Rollout, server string, f ledger.Fact, edit func(*rolloutv1.Target)) {
	key := ledger.Key(r.Id, server)
	t, ok := v.targets.Get(key)
	if !ok {
		return
	}
	before := targetGroups(r.Id, t)
	edit(t)
	v.targets.Put(key, t, f.Sequence)
	v.targetBy.Change(key, before, targetGroups(r.Id, t))
	v.queueTarget(r.Id, t)
}

// queueTarget keeps pending targets in the order of the plan.
func (v *reach) queueTarget(id string, t *rolloutv1.Target) {
	g, member := groupOfWave(id, t.Wave, t.State), fmt.Sprintf("%010d.%s", t.Place, ledger.Key(id, t.ServerId))
	if t.State == rolloutv1.TargetState_TARGET_STATE_PENDING {
		v.queue.Add(g, member)
	} else {
		v.queue.Remove(groupOfWave(id, t.Wave, rolloutv1.TargetState_TARGET_STATE_PENDING), member)
	}
}

// dropOldRollouts drops the targets, and later the records, of rollouts that ended long ago.
func (v *reach) dropOldRollouts() {
	var ended []*rolloutv1.Rollout
	for _, r := range v.rollouts.All() {
		if rollouts.Ended(r.State) {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *rolloutv1.Rollout) int {
		return cmp.Or(b.Since.AsTime().Compare(a.Since.AsTime()), strings.Compare(a.Id, b.Id))
	})
	for n, r := range ended {
		if n < keptTargets {
			continue
		}
		for _, key := range slices.Collect(v.targetBy.Ascend(groupOfRollout(r.Id), "")) {
			v.targetBy.Change(key, targetGroups(r.Id, row(v.targets, key)), nil)
			if t := row(v.targets, key); t.State == rolloutv1.TargetState_TARGET_STATE_PENDING {
				v.queue.Remove(groupOfWave(r.Id, t.Wave, t.State), fmt.Sprintf("%010d.%s", t.Place, key))
			}
			v.targets.Forget(key)
		}
		if n >= keptRollouts && r.LastPartSequence < v.LastPart() {
			v.rollouts.Drop(r.Id, v.rollouts.Sequence(r.Id)) // the sequence still guards the key
		}
	}
}

// LastPart returns the sequence of the last part of a plan, of any rollout; 0 without one.
func (v *orders) LastPart() (last uint64) {
	for _, r := range v.rollouts.All() {
		last = max(last, r.LastPartSequence)
	}
	return last
}

// Recording returns a rollout other than one whose plan is recorded in part, or "". Its targets are not all known.
func (v *orders) Recording(but string) (id string) {
	for key, r := range v.rollouts.All() {
		if r.State == rolloutv1.State_STATE_PLANNED && key != but && (id == "" || key < id) {
			id = key
		}
	}
	return id
}

// Rollout returns a rollout by id.
func (v *orders) Rollout(id string) (*rolloutv1.Rollout, bool) { return v.rollouts.Get(id) }

// Rollouts returns the rollouts that the view keeps, the newest first.
func (v *orders) Rollouts() []*rolloutv1.Rollout {
	var out []*rolloutv1.Rollout
	for _, r := range v.rollouts.All() {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *rolloutv1.Rollout) int {
		return cmp.Or(b.PlannedAt.AsTime().Compare(a.PlannedAt.AsTime()), strings.Compare(a.Id, b.Id))
	})
	return out
}

// Target returns a server's part in a rollout.
func (v *orders) Target(id, server string) (*rolloutv1.Target, bool) {
	return v.targets.Get(ledger.Key(id, server))
}

// Targets returns the targets of a rollout behind a server, by server.
func (v *orders) Targets(id, after string) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupOfRollout(id), id, after)
}

// Pending returns the pending targets of a wave, in the order of the plan.
func (v *orders) Pending(id string, wave uint32) iter.Seq[*rolloutv1.Target] {
	g := groupOfWave(id, wave, rolloutv1.TargetState_TARGET_STATE_PENDING)
	return func(yield func(*rolloutv1.Target) bool) {
		for member := range v.queue.Ascend(g, "") {
			_, key, _ := strings.Cut(member, ".")
			if t, ok := v.targets.Get(key); ok && !yield(t) {
				return
			}
		}
	}
}

// TargetsOf returns the targets in a state, by server.
func (v *orders) TargetsOf(id string, s rolloutv1.TargetState) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupOfState(id, s), id, "")
}

// Silent returns the targets that were reached and are silent since, by server: their servers are offline, or what
// their changes led to was not observed.
func (v *orders) Silent(id string) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupSilent(id), id, "")
}

// Due returns the targets under way on which the next step of their changes is due, by server.
func (v *orders) Due(id string) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupDue(id), id, "")
}

// Unrestored returns the broken targets that were not taken back, by server.
func (v *orders) Unrestored(id string) iter.Seq[*rolloutv1.Target] {
	return v.targetsIn(groupUnrestored(id), id, "")
}

// CountUnrestored returns how many broken targets were not taken back.
func (v *orders) CountUnrestored(id string) uint32 {
	return uint32(v.targetBy.Count(groupUnrestored(id)))
}

func (v *orders) targetsIn(g index.Group, id, after string) iter.Seq[*rolloutv1.Target] {
	if after != "" {
		after = ledger.Key(id, after)
	}
	return at(v.targets, v.targetBy.Ascend(g, after))
}

// RolloutsOn returns the ids of the rollouts with a server among their targets.
func (v *orders) RolloutsOn(server string) []string {
	var out []string
	for key := range v.targetBy.Ascend(index.Group{Field: byServer, Value: server}, "") {
		id, _, _ := strings.Cut(key, ".")
		out = append(out, id)
	}
	return out
}

func refusal(component, code, message string) *apiv1.Refusal {
	return &apiv1.Refusal{Component: component, Code: code, Message: message}
}
