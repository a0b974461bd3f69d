package change

import (
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

const (
	succeeded, undone, failed = taskv1.State_STATE_SUCCEEDED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED

	asWell, still = "; the old version was unhealthy before the change: B", "; it still is: P"
)

var (
	probe    = &Failure{Step: taskv1.Step_STEP_PROVE, Code: "NOT_READY", What: "http://x/", Reason: "N"}
	unstable = &Failure{Step: taskv1.Step_STEP_PROVE, Code: "UNSTABLE", What: "http://x/", Reason: "N"}
	exit     = &Failure{Step: taskv1.Step_STEP_PROVE, Code: "EXITED", What: "exit status 3", Reason: "N"}
	early    = &Failure{Step: taskv1.Step_STEP_FETCH, Code: "CHUNK_MISSING", Reason: "N"}
	sick     = &Health{Code: "NOT_READY", What: "http://x/", Reason: "B"}
	ended    = &Health{Code: "EXITED", What: "exit status 3", Reason: "B"}
	unknown  = &Health{Code: "EXITED", Reason: "B"}
)

// ends are what was there before a change, what failed, and how the change ends.
var ends = []struct {
	name               string
	before             *Health
	failure            *Failure
	notProven, notAsIs string
	remove             bool
	state              taskv1.State
	code, reason       string
}{
	{"healthy, healthy", nil, nil, "", "", false, succeeded, "", ""},
	{"unhealthy, healthy", sick, nil, "", "", false, succeeded, "", ""},
	{"healthy, fails, old healthy again", nil, probe, "", "", false, undone, "NOT_READY", "N"},
	{
		"healthy, fails, old unhealthy", nil, probe, "P", "", false, failed, "NOT_READY",
		"N; then the old version failed its health check: P",
	},
	{
		"healthy, fails, rollback failed", nil, probe, "", "U", false, failed, "NOT_READY",
		"N; then the rollback failed: U",
	},
	{
		"unhealthy, fails the same way, old healthy", sick, probe, "", "", false, undone, code.BadAsBefore,
		"N" + asWell,
	},
	{
		"unhealthy, fails the same way, old still unhealthy", sick, probe, "P", "", false, undone, code.BadAsBefore,
		"N" + asWell + still,
	},
	{
		"unhealthy, fails the same way in the soak", sick, unstable, "P", "", false, undone, code.BadAsBefore,
		"N" + asWell + still,
	},
	{
		"unhealthy, fails in another way, old still unhealthy", sick, exit, "P", "", false, undone, "EXITED",
		"N" + asWell + still,
	},
	{
		"ended before, ends the same way", ended, exit, "P", "", false, undone, code.BadAsBefore,
		"N" + asWell + still,
	},
	{"ended before, for an unknown reason", unknown, exit, "P", "", false, undone, "EXITED", "N" + asWell + still},
	{
		"unhealthy, fails the same way, rollback failed", sick, probe, "", "U", false, failed, code.BadAsBefore,
		"N" + asWell + "; then the rollback failed: U",
	},
	{"unhealthy, refused before the switch", sick, early, "", "", false, undone, "CHUNK_MISSING", "N"},
	{"a removal that fails", nil, exit, "", "", true, failed, "EXITED", "N"},
}

func TestHowAChangeEndsDependsOnWhatWasThereBefore(t *testing.T) {
	for _, c := range ends {
		r := &Record{
			OldHealth:     c.before,
			Failure:       c.failure,
			OldUnhealthy:  c.notProven,
			RollbackError: c.notAsIs,
			Verb:          taskv1.Verb_VERB_UPGRADE,
		}
		if c.remove {
			r.Verb = taskv1.Verb_VERB_REMOVE
		}
		if o := r.Outcome(); o != (Outcome{c.state, c.code, c.reason}) {
			t.Errorf("%s: %v, want %s %s %q", c.name, o, c.state, c.code, c.reason)
		}
	}
}

func TestAChangeTouchesTheServerFromItsSwitchOn(t *testing.T) {
	touches := map[taskv1.Step]bool{
		taskv1.Step_STEP_SWITCH: true, taskv1.Step_STEP_PROVE: true, taskv1.Step_STEP_COMMIT: true,
		taskv1.Step_STEP_UNDO: true,
	}
	for n, name := range taskv1.Step_name {
		s := taskv1.Step(n)
		c := &Record{Verb: taskv1.Verb_VERB_UPGRADE, Step: s}
		if Touches(s) != touches[s] || c.Touched() != touches[s] {
			t.Errorf("%s: a step touches %v, a change %v, want %v", name, Touches(s), c.Touched(), touches[s])
		}
	}
	for name, c := range map[string]*Record{
		"that failed":       {Verb: taskv1.Verb_VERB_INSTALL, Failure: &Failure{}},
		"that is committed": {Verb: taskv1.Verb_VERB_INSTALL, Committed: true},
		"that removes":      {Verb: taskv1.Verb_VERB_REMOVE, Step: taskv1.Step_STEP_SWITCH},
	} {
		if !c.Touched() {
			t.Errorf("a change %s counts as one that touched nothing", name)
		}
	}
	if waits := (&Record{Verb: taskv1.Verb_VERB_REMOVE, Step: taskv1.Step_STEP_DEFER}); waits.Touched() {
		t.Error("a removal that waits counts as one that touched something: its agent would not be started")
	}
}
