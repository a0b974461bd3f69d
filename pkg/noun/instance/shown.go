package instance

import (
	"time"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// ShownBy returns what a server found of an agent once a task had succeeded, in time or late; nil where the end of the
// task does not say it, and a list of the server's agents does.
func ShownBy(t *taskv1.Task) *instancev1.Observed {
	shown, succeeded := t.GetOutcome().GetShown(), taskv1.State_STATE_SUCCEEDED
	if shown == nil || t.GetState() != succeeded && t.GetReported() != succeeded || t.GetTo() == nil {
		return nil
	}
	return &instancev1.Observed{
		InstanceId: t.InstanceId, Generation: t.Generation, Image: t.To, Health: instancev1.Health_HEALTH_GOOD,
		ConfigurationDigest: shown.ConfigurationDigest, Kept: shown.Kept,
	}
}

// ApplyShown folds what a task showed into the instance that it changed, before ApplyTask. It reports whether the task
// showed anything of the instance, which may be nil.
func ApplyShown(i *instancev1.Instance, t *taskv1.Task, at time.Time) bool {
	shown := ShownBy(t)
	if i == nil || shown.GetInstanceId() != i.Id {
		return false
	}
	recordObserved(i, at, shown)
	i.ShownReport, i.ShownAt = t.Outcome.Shown.Report, t.Outcome.Shown.At
	settle(i, at, "")
	return true
}

// Outdated reports whether a list of a server's agents is older than what a task showed of an instance since. The list
// was numbered and made before: later reports have lower numbers once a journal was lost or set back, and earlier times
// once a clock was.
func Outdated(i *instancev1.Instance, list *reportv1.Report) bool {
	return list.GetSequence() < i.GetShownReport() && list.GetAt().AsTime().Before(i.GetShownAt().AsTime())
}
