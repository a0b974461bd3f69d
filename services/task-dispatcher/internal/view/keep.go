package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

// An environment's keep budgets hold for every task, because each is admitted here, one after another under one claim.
// What the executor repairs or starts again without a task is on a server that does not work, so it costs nothing.

// budgets returns the keep budgets that hold for a server.
func (v *View) budgets(server string) []*rolloutv1.Keep {
	s, ok := v.servers.Get(server)
	if !ok || s.Life != serverv1.Life_LIFE_ALIVE {
		return nil
	}
	e, _ := v.settings.Get(s.Environment)
	return e.GetKeep()
}

// reviewKeep counts a server anew after something about it changed.
func (v *View) reviewKeep(server string) {
	budgets := v.budgets(server)
	if len(budgets) == 0 {
		v.kept.Drop(server)
		return
	}
	s, _ := v.servers.Get(server)
	v.kept.Set(server, keep.GroupsOf(budgets, s.Environment, s.Labels), v.works(server))
}

// works reports whether a server may be sent changes, none is under way on it, and no agent on it is unhealthy.
func (v *View) works(server string) bool {
	if admission.Away(v.serverForAdmission(server)) != "" {
		return false
	}
	for _, r := range v.openOf[server] {
		if disturbs(r.Task) && task.UnderWay(r.Task.State) {
			return false
		}
	}
	for _, i := range v.instances.byServer[server] {
		if i.Placed != nil && i.Unwell || i.Unsettled && i.OpenTaskId == "" {
			return false
		}
	}
	return true
}

// disturbs reports whether a task may stop an agent. A refresh only asks for a report.
func disturbs(t *taskv1.Task) bool { return t.Verb != taskv1.Verb_VERB_REFRESH }

// observed notes whether an agent is healthy, and at which generation: the task that brought it about may end in a
// later fact.
func (v *View) observed(i *dispatcherv1.InstanceRecord, b *instancev1.Observed) {
	if instance.Outdated(i, b) {
		return
	}
	i.ObservedGeneration, i.ObservedReport, i.ReportedAt = b.Generation, b.Report, b.ReportedAt
	unwell := b.Health == instancev1.Health_HEALTH_BAD || b.Health == instancev1.Health_HEALTH_ABSENT
	if i.Unwell != unwell {
		i.Unwell = unwell
		v.reviewKeep(i.ServerId)
	}
}

// unspent returns the ready tasks, in the order of the queue, without those that a keep budget holds back.
func (v *View) unspent(yield func(candidate) bool) {
	spending := keep.NewSpending(v.kept)
	v.ready.Scan(func(c candidate) bool {
		if c.opening != nil && v.withdrawn(c.record.Task) != nil { // it is queued, and then ended
			return true
		}
		if t := c.record.Task; !v.kept.Empty() && disturbs(t) {
			if _, ok := spending.Take(t.ServerId, v.budgets(t.ServerId)); !ok {
				return true
			}
		}
		return yield(c)
	})
}

// held returns why a keep budget holds a task back that nothing else does, or "".
func (v *View) held(t *taskv1.Task) string {
	if v.kept.Empty() || !disturbs(t) {
		return ""
	}
	budgets := v.budgets(t.ServerId)
	n, ok := keep.NewSpending(v.kept).Take(t.ServerId, budgets)
	if ok {
		return ""
	}
	g := v.kept.GroupsOf(t.ServerId)[n]
	return "waits: " + keep.Words(budgets[n], g, v.kept.Of(g))
}
