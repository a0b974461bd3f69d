package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

// An environment's keep budgets hold for every task, because each is admitted here, one after another under one claim.
// What the executor repairs or starts again without a task is on a server that does not work, so it costs nothing.

// keeps counts the servers that work, for keep budgets.
type keeps struct {
	*tables
	rows  *Rows
	tally *keep.Tally
}

// review counts a server anew after something about it changed.
func (k *keeps) review(server string) {
	budgets := k.rows.budgets(server)
	if len(budgets) == 0 {
		k.tally.Drop(server)
		return
	}
	s, _ := k.servers.Get(server)
	k.tally.Set(server, keep.GroupsOf(budgets, s.Environment, s.Labels), k.works(server))
}

// works reports whether a server may be sent changes, none is under way on it, and no agent on it is unhealthy.
func (k *keeps) works(server string) bool {
	if admission.Away(k.rows.serverForAdmission(server)) != "" {
		return false
	}
	for _, r := range k.open[server] {
		if disturbs(r.Task) && task.UnderWay(r.Task.State) {
			return false
		}
	}
	for _, i := range k.instances.byServer[server] {
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
func (k *keeps) observed(i *dispatcherv1.InstanceRecord, b *instancev1.Observed) {
	if instance.Outdated(i, b) {
		return
	}
	i.ObservedGeneration, i.ObservedReport, i.ReportedAt = b.Generation, b.Report, b.ReportedAt
	unwell := b.Health == instancev1.Health_HEALTH_BAD || b.Health == instancev1.Health_HEALTH_ABSENT
	if i.Unwell != unwell {
		i.Unwell = unwell
		k.review(i.ServerId)
	}
}

// unspent returns the ready tasks, in the order of the queue, without those that a keep budget holds back.
func (q *Queue) unspent(yield func(candidate) bool) {
	spending := keep.NewSpending(q.keeps.tally)
	q.ready.Scan(func(c candidate) bool {
		if c.opening != nil && q.rows.withdrawn(c.record.Task) != nil { // it is queued, and then ended
			return true
		}
		if t := c.record.Task; !q.keeps.tally.Empty() && disturbs(t) {
			if _, ok := spending.Take(t.ServerId, q.rows.budgets(t.ServerId)); !ok {
				return true
			}
		}
		return yield(c)
	})
}

// held returns why a keep budget holds a task back that nothing else does, or "".
func (k *keeps) held(t *taskv1.Task) string {
	if k.tally.Empty() || !disturbs(t) {
		return ""
	}
	budgets := k.rows.budgets(t.ServerId)
	n, ok := keep.NewSpending(k.tally).Take(t.ServerId, budgets)
	if ok {
		return ""
	}
	g := k.tally.GroupsOf(t.ServerId)[n]
	return "waits: " + keep.Words(budgets[n], g, k.tally.Of(g))
}
