package rollouts

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// queued is the step of a change that was released and has not begun.
const queued = "queued"

// step is where the change of a server is that was reached.
type step struct {
	agent string // whose change it is; empty while several are observed
	name  string
	waits string // why it is deferred; empty otherwise
}

// withStep returns the row of a target, with where its change is when its server was reached. It must run inside Read.
func (a *API) withStep(t *rolloutv1.Target) *registryv1.RolloutTarget {
	row := a.row(t)
	if t.State == rolloutv1.TargetState_TARGET_STATE_REACHED {
		s := a.stepOf(t)
		row.Step, row.Agent, row.WaitsFor = s.name, s.agent, s.waits
	}
	return row
}

// waits reports whether a server was released and no change of it has begun. It must run inside Read.
func (a *API) waits(t *rolloutv1.Target) bool {
	return t.State == rolloutv1.TargetState_TARGET_STATE_REACHED && a.stepOf(t).name == queued
}

// stepOf returns the first change of a server that has not ended, and where it is. It must run inside Read.
func (a *API) stepOf(t *rolloutv1.Target) step {
	for n, c := range t.Changes {
		if rollout.StepOf(c) > max(t.Step, 1) || n < len(t.Done) && t.Done[n] {
			continue
		}
		i, _ := a.records.View.Instance(t.ServerId, c.Agent)
		present := i.GetTaskGeneration() == i.GetGeneration()
		switch {
		case present && i.GetTaskWaits() != "":
			return step{c.Agent, "deferred", i.TaskWaits}
		case present && i.GetTaskState() == taskv1.State_STATE_ASSIGNED:
			return step{c.Agent, "assigned", ""}
		case present && i.GetTaskState() == taskv1.State_STATE_RUNNING:
			return step{c.Agent, "running", ""}
		}
		return step{c.Agent, queued, ""}
	}
	for n, c := range t.Changes {
		if n < len(t.Awaited) && t.Awaited[n] > 0 {
			return step{c.Agent, "observing", ""}
		}
	}
	return step{"", "observing", ""}
}
