package drift

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The cure of UNKNOWN_VARIABLE named neither the server nor the label, and ended before the change that it allows.
func TestTheCureOfWhatARetryDoesNotHelpNamesWhatIsKnown(t *testing.T) {
	for _, c := range []struct{ cause, reason, want string }{
		{code.UnknownVariable, "the image's run uses ${label.rack}; known here: port",
			"garrison server label one rack=VALUE, then garrison up web@1.0.0 --on one; "},
		{code.UnknownVariable, "the image's run uses ${metadata.level}; known here: port",
			"garrison agent update web --set level=VALUE, then garrison up web@1.0.0 --on one"},
		{code.UnknownVariable, "the image's run uses ${hostname}; known here: port", "a version without it"},
		{code.BadTemplate, "label.rack is missing", "garrison configure web --set NAME=VALUE --on one"},
	} {
		d := &registryv1.Difference{
			Agent: "web", ServerName: "one", Cause: c.cause, Reason: c.reason, Remedy: up,
			Image: &imagev1.Ref{Id: "image", Version: "1.0.0"},
		}
		cure(d)
		if d.Remedy != person || !strings.Contains(d.Cure, c.want) || strings.Contains(d.Cure, "SERVER") {
			t.Errorf("%s: %s, %s", c.reason, d.Remedy, d.Cure)
		}
	}
}

// A cure that brings what failed fails again, and takes from the intent that brought it the way back.
func TestWhatFailedIsCuredByAnUndoOfItsIntent(t *testing.T) {
	for _, end := range []struct {
		state taskv1.State
		code  string
		again bool // asking for the same again may help
	}{
		{taskv1.State_STATE_UNDONE, code.Exited, false},
		{taskv1.State_STATE_UNDONE, code.NotReady, false},
		{taskv1.State_STATE_UNDONE, code.Interrupted, true},
		{taskv1.State_STATE_FAILED, code.NotStarted, false},
		{taskv1.State_STATE_FAILED, code.NeedsBus, true},
	} {
		for _, observed := range []*imagev1.Ref{nil, {Id: "before", Version: "0.9.0"}} {
			s, i := healthy()
			i.State, i.TaskState, i.TaskCode, i.IntentId = failed, end.state, end.code, "7d2f"
			i.Failed, i.Observed = i.Wanted, observed
			rows, _ := Of(look(s, i, active()), all)
			undo := len(rows) == 1 && rows[0].Remedy == person && rows[0].Cure == "garrison undo 7d2f"
			if undo == end.again || !end.again && (rows[0].Cause != end.code || Drifted(i) != "") {
				t.Errorf("%s of %v: %v", end.code, observed, rows)
			}
		}
	}
}
