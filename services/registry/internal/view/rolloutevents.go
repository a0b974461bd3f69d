package view

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// executor is the component that names why a change failed.
const executor = "executor"

// What happens to servers, instances and tasks moves the targets of rollouts.

// rolloutIntent folds the answer to an intent that a rollout released: the servers that it changes are reached.
func (v *reach) rolloutIntent(f ledger.Fact) {
	var in *intentv1.Intent
	var changed []string
	why := func(string) *apiv1.Refusal { return nil }
	switch b := f.Body.(type) {
	case *intentv1.Accepted:
		in, changed = b.Intent, b.ServerIds
		why = func(server string) *apiv1.Refusal { return reasonFor(b.Reasons, server) }
	case *intentv1.Refused:
		in = b.Intent
		why = func(string) *apiv1.Refusal { return b.Refusal }
	}
	r := row(v.rollouts, in.GetSource().GetRolloutId())
	if r == nil {
		return
	}
	if in.GetRefresh().GetAhead() != nil {
		v.rolloutAhead(r, changed, f)
		return
	}
	for _, id := range rollouts.Named(in) {
		t, ok := v.Target(r.Id, id)
		if !ok {
			continue
		}
		_, changes := slices.BinarySearch(changed, id)
		if t.State == rolloutv1.TargetState_TARGET_STATE_BROKEN && in.GetUndo() != nil {
			v.restored(r, id, in.GetUndo().IntentId, changes, why(id), f)
		} else {
			v.release(r, t, rollouts.ChangeOf(t, in), changes, why(id), f)
		}
	}
}

// restored records that a broken server was taken back, or why it cannot be. One that was left out although what the
// rollout made is still wanted there is tried again.
func (v *reach) restored(
	r *rolloutv1.Rollout, server, undone string, changes bool, why *apiv1.Refusal, f ledger.Fact,
) {
	v.editTarget(r, server, f, func(t *rolloutv1.Target) {
		n := slices.Index(t.IntentIds, undone)
		if changes && n >= 0 && !rollout.Restored(t, n, v.asMade(t)) {
			return // the steps before it follow
		}
		if !changes && why != nil {
			t.Reason = refusal(ledger.Registry, why.Code, "not taken back: "+why.Message)
			if n >= 0 && v.asMade(t)(n) {
				t.NotRestoredBy, t.NotRestoredAt = f.Key, timestamppb.New(f.At)
				return
			}
		}
		t.RestoredBy, t.NotRestoredBy, t.NotRestoredAt = f.Key, "", nil
	})
}

// rolloutReverted folds that a server undid a change, so that what was there before is wanted again. A broken server on
// which nothing of its rollout is wanted any longer is taken back.
func (v *reach) rolloutReverted(i *instancev1.Instance, intent string, f ledger.Fact) {
	v.onTargets(i.ServerId, func(r *rolloutv1.Rollout, t *rolloutv1.Target) {
		if t.State != rolloutv1.TargetState_TARGET_STATE_BROKEN || t.RestoredBy != "" ||
			!slices.Contains(t.IntentIds, intent) {
			return
		}
		made := v.asMade(t)
		for n, id := range t.IntentIds {
			if id != "" && made(n) {
				return
			}
		}
		v.editTarget(r, t.ServerId, f, func(t *rolloutv1.Target) { t.RestoredBy = intent })
	})
}

// asMade returns a function that reports whether a change of a target is what is wanted of its agent.
func (v *reach) asMade(t *rolloutv1.Target) func(change int) bool {
	return func(n int) bool {
		i, ok := v.Instance(t.ServerId, t.Changes[n].Agent)
		return !ok && t.Changes[n].To == nil || ok && i.IntentId == t.IntentIds[n]
	}
}

// reasonFor returns why a server is left out. An answer names the first servers of a reason only.
func reasonFor(reasons []*intentv1.Reason, server string) (why *apiv1.Refusal) {
	for _, r := range reasons {
		if r.Effect != intentv1.Effect_EFFECT_ALREADY && (why == nil || slices.Contains(r.ServerIds, server)) {
			why = r.First
		}
	}
	return why
}

// release records that a change of a target was asked for, or cannot be made.
func (v *reach) release(
	r *rolloutv1.Rollout, t *rolloutv1.Target, n int, changes bool, why *apiv1.Refusal, f ledger.Fact,
) {
	if n < 0 {
		return
	}
	left := !changes && !v.has(t.ServerId, t.Changes[n])
	if left && why == nil {
		why = refusal(ledger.Registry, code.ChangedSince, "it changed since the plan was made")
	}
	if left && (len(t.Changes) == 1 || why.GetCode() == code.AskedLater) {
		v.applyTarget(r, t.ServerId, f, rollout.Event{Kind: rollout.LeftOut, Reason: why})
		return
	}
	e := rollout.Event{Kind: rollout.Released, Change: n, UnhealthyBefore: v.unhealthy(t)}
	if !left {
		e.IntentID = v.shared.text(f.Key)
	}
	v.applyTarget(r, t.ServerId, f, e)
	if !changes { // a server with one change left out is not as it was planned: that counts
		v.applyTarget(r, t.ServerId, f, rollout.Event{Kind: rollout.Ended, Change: n, OK: !left, Reason: why})
	}
	v.away(r, t.ServerId, f)
}

// away notes that a server was offline already when its release was recorded: no fact follows that says so.
func (v *reach) away(r *rolloutv1.Rollout, server string, f ledger.Fact) {
	if s := row(v.servers, server); s.GetPresence() != serverv1.Presence_PRESENCE_OFFLINE {
		return
	}
	v.editTarget(r, server, f, func(t *rolloutv1.Target) {
		if t.SilentSince == nil {
			t.SilentSince = timestamppb.New(f.At)
		}
	})
}

// has reports whether what a change brings is wanted already.
func (v *reach) has(server string, c *rolloutv1.Change) bool {
	i, _ := v.Instance(server, c.Agent)
	if c.Repair {
		return false // it is what was wanted all the time
	}
	if c.To == nil || i.GetWanted() == nil {
		return c.To == nil && i.GetWanted() == nil
	}
	digest := hex.EncodeToString(i.Configuration.GetDigest())
	return instance.SameImage(i.Wanted, c.To) && (c.ToConfiguration == "" || c.ToConfiguration == digest)
}

// unhealthy returns the agents on the server of a target that are not healthy, but for those that it repairs.
func (v *reach) unhealthy(t *rolloutv1.Target) []string {
	var out []string
	for i := range v.InstancesOf(t.GetServerId()) {
		repaired := slices.ContainsFunc(t.GetChanges(), func(c *rolloutv1.Change) bool {
			return c.Repair && c.Agent == i.Agent
		})
		if unwell(i) && !repaired {
			out = append(out, i.Agent)
		}
	}
	return out
}

func unwell(i *instancev1.Instance) bool {
	return i.Health == instancev1.Health_HEALTH_BAD || i.Health == instancev1.Health_HEALTH_ABSENT
}

// onTargets calls do for each target of rollouts that a server is. Targets of rollouts that ended move on, because
// servers that are owed do.
func (v *reach) onTargets(server string, do func(*rolloutv1.Rollout, *rolloutv1.Target)) {
	for _, id := range v.RolloutsOn(server) {
		r := row(v.rollouts, id)
		if t, ok := v.Target(id, server); ok && r != nil && r.State != rolloutv1.State_STATE_UNDONE {
			do(r, t)
		}
	}
}

// rolloutTask folds the end of a task of a release.
func (v *reach) rolloutTask(task *taskv1.Task, f ledger.Fact) {
	if task.Ahead != nil {
		v.aheadTask(task, f)
		return
	}
	v.onTargets(task.ServerId, func(r *rolloutv1.Rollout, t *rolloutv1.Target) {
		n := slices.Index(t.IntentIds, task.IntentId)
		if n < 0 || t.RestoredBy != "" {
			return
		}
		e := rollout.Event{Kind: rollout.Ended, Change: n, OK: task.State == taskv1.State_STATE_SUCCEEDED}
		i, _ := v.Instance(task.ServerId, task.Agent)
		switch {
		case !e.OK:
			e.Reason, e.FailedStep = taskReason(task), stepWord(task.GetOutcome().GetFailedStep())
		case observable(i):
			e.Generation = task.Generation
		}
		if task.State == taskv1.State_STATE_CANCELLED || task.State == taskv1.State_STATE_SUPERSEDED {
			c, _ := f.Body.(*taskv1.Cancelled)
			if c == nil && i.GetIntentId() == task.IntentId {
				return // another task of the same change took its place
			}
			e.Kind, e.Reason = rollout.LeftOut, refusal(ledger.Dispatcher, cmp.Or(c.GetCode(), code.ChangedSince),
				cmp.Or(c.GetReason(), "another intent changed it since"))
			if c.GetWithdrawn() && v.withheld(r, task.IntentId) {
				e.Kind = rollout.Withheld // the rollout stopped before the change began
			}
		}
		v.applyTarget(r, t.ServerId, f, e)
		s := row(v.servers, t.ServerId)
		if e.Kind == rollout.Withheld && s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE {
			v.applyTarget(r, t.ServerId, f, rollout.Event{Kind: rollout.Away})
		}
		if e.Generation > 0 { // the report that shows the agent after its change may have come first
			v.applyTarget(r, t.ServerId, f, seen(i, n))
		}
	})
}

// withheld reports whether the registry withdrew an intent because its rollout stopped. Of one that has left the view
// only the rollout is known.
func (v *reach) withheld(r *rolloutv1.Rollout, intent string) bool {
	in, kept := v.intents.Get(intent)
	if !kept {
		return rollout.Stopped(r.State)
	}
	return in.WithdrawnBy == ledger.Registry
}

// observable reports whether a report will show an agent after its change. A removal leaves nothing to observe, and an
// executor that reports no generations may have reported all that there is.
func observable(i *instancev1.Instance) bool {
	return i.GetWanted() != nil && (i.ObservedGeneration > 0 || i.State != instancev1.State_STATE_CONVERGED)
}

// seen is the event that an instance was observed after a change of a target.
func seen(i *instancev1.Instance, change int) rollout.Event {
	return rollout.Event{
		Kind: rollout.Seen, Change: change, Agent: i.Agent, Generation: i.ObservedGeneration, OK: !unwell(i),
		Reason: unhealthyReason(i),
	}
}

func unhealthyReason(i *instancev1.Instance) *apiv1.Refusal {
	return refusal(executor, code.UnhealthySinceReach, fmt.Sprintf(
		"%s became unhealthy after the server was reached: %s %s", i.Agent, i.ObservedCode, i.ObservedReason))
}

// stepWord returns a step of the executor in a word; empty for none.
func stepWord(s taskv1.Step) string {
	if s == taskv1.Step_STEP_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(s.String(), "STEP_"))
}

func taskReason(t *taskv1.Task) *apiv1.Refusal {
	o := t.GetOutcome()
	if t.State == taskv1.State_STATE_EXPIRED {
		return refusal(ledger.Dispatcher, code.ChangeExpired, t.Agent+" was not changed before the deadline")
	}
	message := o.GetReason()
	if step := stepWord(o.GetFailedStep()); step != "" {
		message = fmt.Sprintf("%s, step %s: %s", t.Agent, step, message)
	}
	return refusal(executor, o.GetCode(), message)
}

// rolloutHealth folds an observation: a change that is done succeeded once a healthy agent was observed after it, and
// an agent that became unhealthy since its server was reached breaks the target.
func (v *reach) rolloutHealth(i *instancev1.Instance, f ledger.Fact) {
	if i.GetWanted() == nil {
		return
	}
	v.onTargets(i.ServerId, func(r *rolloutv1.Rollout, t *rolloutv1.Target) {
		own := changeOf(t, i.Agent)
		if own >= 0 && own < len(t.Awaited) && t.Awaited[own] > 0 && t.RestoredBy == "" {
			v.applyTarget(r, t.ServerId, f, seen(i, own))
			return
		}
		if !unwell(i) || rollouts.Ended(r.State) || own >= 0 && i.ObservedGeneration < i.Generation {
			return // what was there before
		}
		v.applyTarget(r, t.ServerId, f, rollout.Event{
			Kind: rollout.Unhealthy, Agent: i.Agent, Reason: unhealthyReason(i),
		})
	})
}

// changeOf returns the change of an agent whose observation is awaited, or its first one; -1 without one.
func changeOf(t *rolloutv1.Target, agent string) int {
	found := -1
	for n, c := range t.Changes {
		if c.Agent != agent {
			continue
		}
		if n < len(t.Awaited) && t.Awaited[n] > 0 {
			return n
		}
		if found < 0 {
			found = n
		}
	}
	return found
}

// rolloutUnwanted folds that an agent is removed by another intent, or gone: no observation of what a rollout
// brought can follow.
func (v *reach) rolloutUnwanted(i *instancev1.Instance, f ledger.Fact) {
	v.onTargets(i.GetServerId(), func(r *rolloutv1.Rollout, t *rolloutv1.Target) {
		for n, c := range t.Changes {
			if c.Agent == i.Agent && n < len(t.Awaited) && t.Awaited[n] > 0 {
				e := rollout.Event{Kind: rollout.Seen, Change: n, Agent: c.Agent, Generation: t.Awaited[n], OK: true}
				v.applyTarget(r, t.ServerId, f, e)
			}
		}
	})
}

// rolloutServer folds that a server is offline, online, shut out or gone.
func (v *reach) rolloutServer(id string, f ledger.Fact) {
	var kind rollout.EventKind
	switch f.Body.(type) {
	case *serverv1.Offline:
		kind = rollout.Away
	case *serverv1.Online:
		kind = rollout.Back
	case *serverv1.Dying, *serverv1.Dead, *serverv1.Forgotten:
		kind = rollout.Gone
	case *serverv1.Quarantined, *serverv1.Revoked: // no report of what it fetches is believed
		v.onTargets(id, func(r *rolloutv1.Rollout, _ *rolloutv1.Target) {
			v.editTarget(r, id, f, func(t *rolloutv1.Target) { v.aheadAway(r, t) })
		})
		return
	default:
		return
	}
	v.onTargets(id, func(r *rolloutv1.Rollout, _ *rolloutv1.Target) {
		v.applyTarget(r, id, f, rollout.Event{Kind: kind})
		v.editTarget(r, id, f, func(t *rolloutv1.Target) {
			if kind != rollout.Back {
				v.aheadAway(r, t)
			}
			t.SilentSince = nil
			if kind == rollout.Away && len(t.IntentIds) > 0 {
				t.SilentSince = timestamppb.New(f.At)
			}
		})
	})
}
