package instance

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// ShownBy returns what a server found of an agent once a task had succeeded; nil where the end of the task does not
// show it.
func ShownBy(t *taskv1.Task) *instancev1.Observed {
	shown := t.GetOutcome().GetShown()
	if shown == nil || t.GetState() != taskv1.State_STATE_SUCCEEDED || t.GetTo() == nil {
		return nil
	}
	return &instancev1.Observed{
		InstanceId: t.InstanceId, Generation: t.Generation, Image: t.To, Health: instancev1.Health_HEALTH_GOOD,
		ConfigurationDigest: shown.ConfigurationDigest, Kept: shown.Kept, Report: shown.Report, ReportedAt: shown.At,
	}
}

// ApplyShown folds what a task showed into the instance that it changed, which may be nil, before ApplyTask. It reports
// whether anything was recorded.
func ApplyShown(i *instancev1.Instance, t *taskv1.Task, at time.Time) bool {
	shown := ShownBy(t)
	if i == nil || shown.GetInstanceId() != i.Id || Outdated(i, shown) {
		return false
	}
	recordObserved(i, at, shown)
	settle(i, at, "")
	return true
}

// Outdated reports whether the report of an observation was numbered and made before the one of what is recorded. Later
// reports have lower numbers once a journal was lost or set back, and earlier times once a clock was.
func Outdated(recorded interface {
	GetObservedReport() uint64
	GetReportedAt() *timestamppb.Timestamp
}, o *instancev1.Observed) bool {
	return o.GetReport() < recorded.GetObservedReport() &&
		o.GetReportedAt().AsTime().Before(recorded.GetReportedAt().AsTime())
}
