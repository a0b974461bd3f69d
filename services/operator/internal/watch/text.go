package watch

import (
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

func (v *watcher) name(t display.Task) string {
	return output.View{Names: v.names}.Server(t.GetServerId())
}

func (v *watcher) endText(t display.Task) string {
	text := v.name(t) + ": " + display.VerbText(t)
	if t.GetAgent() != "" {
		text += " " + t.GetAgent()
	}
	if versions := versionsText(t); versions != "" {
		text += " " + versions
	}
	text += ": " + output.Word(t.GetState())
	if d := t.GetSince().AsTime().Sub(t.GetQueuedAt().AsTime()); t.GetQueuedAt() != nil && d > 0 {
		text += " after " + d.Round(10*time.Millisecond).String()
	}
	if reason := display.TaskReason(t); reason != "" {
		text += ": " + output.Cell(reason)
	}
	if s := t.GetState(); s == taskv1.State_STATE_FAILED || s == taskv1.State_STATE_UNDONE {
		text += " (garrison task show " + ident.Short(t.GetId()) + ")"
	}
	return text
}

// versionsText returns the old and the new version of a task, or one version when it stays.
func versionsText(t display.Task) string {
	from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion()
	switch {
	case from != "" && to != "" && from != to:
		return from + " → " + to
	case from != "" && to != "" && t.GetVerb() == taskv1.Verb_VERB_UPGRADE:
		return to + " again"
	}
	return to
}
