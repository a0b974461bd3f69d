package journal

import (
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestHowAChangeEndsDependsOnWhatWasThereBefore(t *testing.T) {
	const succeeded, undone, failed = taskv1.State_STATE_SUCCEEDED, taskv1.State_STATE_UNDONE, taskv1.State_STATE_FAILED
	probe := &Failure{Step: taskv1.Step_STEP_PROVE, Code: "NOT_READY", What: "http://x/", Reason: "N"}
	unstable := &Failure{Step: taskv1.Step_STEP_PROVE, Code: "UNSTABLE", What: "http://x/", Reason: "N"}
	exit := &Failure{Step: taskv1.Step_STEP_PROVE, Code: "EXITED", What: "exit status 3", Reason: "N"}
	early := &Failure{Step: taskv1.Step_STEP_FETCH, Code: "CHUNK_MISSING", Reason: "N"}
	sick := &Health{Code: "NOT_READY", What: "http://x/", Reason: "B"}
	ending := &Health{Code: "EXITED", What: "exit status 3", Reason: "B"}
	unknown := &Health{Code: "EXITED", Reason: "B"}
	const asWell, still = "; the old version was bad before as well: B", "; it still is: P"
	for _, c := range []struct {
		name               string
		before             *Health
		failure            *Failure
		notProven, notAsIs string
		remove             bool
		state              taskv1.State
		code, reason       string
	}{
		{"good, proven", nil, nil, "", "", false, succeeded, "", ""},
		{"bad, proven", sick, nil, "", "", false, succeeded, "", ""},
		{"good, fails, old proven", nil, probe, "", "", false, undone, "NOT_READY", "N"},
		{"good, fails, old not proven", nil, probe, "P", "", false, failed, "NOT_READY", "N; then the old version did not prove itself: P"},
		{"good, fails, old not back", nil, probe, "", "U", false, failed, "NOT_READY", "N; then the undo went wrong: U"},
		{"bad, fails the same way, old well again", sick, probe, "", "", false, undone, CodeBadAsBefore, "N" + asWell},
		{"bad, fails the same way, old still bad", sick, probe, "P", "", false, undone, CodeBadAsBefore, "N" + asWell + still},
		{"bad, fails the same way in the soak", sick, unstable, "P", "", false, undone, CodeBadAsBefore, "N" + asWell + still},
		{"bad, fails in another way, old still bad", sick, exit, "P", "", false, undone, "EXITED", "N" + asWell + still},
		{"ended before, ends the same way", ending, exit, "P", "", false, undone, CodeBadAsBefore, "N" + asWell + still},
		{"ended before, nobody knows how", unknown, exit, "P", "", false, undone, "EXITED", "N" + asWell + still},
		{"bad, fails the same way, old not back", sick, probe, "", "U", false, failed, CodeBadAsBefore, "N" + asWell + "; then the undo went wrong: U"},
		{"bad, refused before the switch", sick, early, "", "", false, undone, "CHUNK_MISSING", "N"},
		{"a removal that does not get through", nil, exit, "", "", true, failed, "EXITED", "N"},
	} {
		ch := &Change{Before: c.before, Failure: c.failure, NotProven: c.notProven, NotAsIs: c.notAsIs, Verb: taskv1.Verb_VERB_UPGRADE}
		if c.remove {
			ch.Verb = taskv1.Verb_VERB_REMOVE
		}
		if o := ch.Outcome(); ch.State() != c.state || o.GetCode() != c.code || o.GetReason() != c.reason {
			t.Errorf("%s: %s %s %q, want %s %s %q", c.name, ch.State(), o.GetCode(), o.GetReason(), c.state, c.code, c.reason)
		}
	}
}

func TestAChangeTouchesTheServerFromItsSwitchOn(t *testing.T) {
	touches := map[taskv1.Step]bool{
		taskv1.Step_STEP_SWITCH: true, taskv1.Step_STEP_PROVE: true, taskv1.Step_STEP_COMMIT: true, taskv1.Step_STEP_UNDO: true,
	}
	for n, name := range taskv1.Step_name {
		s := taskv1.Step(n)
		c := &Change{Verb: taskv1.Verb_VERB_UPGRADE, Step: s}
		if Touches(s) != touches[s] || c.Touched() != touches[s] {
			t.Errorf("%s: a step touches %v, a change %v, want %v", name, Touches(s), c.Touched(), touches[s])
		}
	}
	for name, c := range map[string]*Change{
		"that failed":       {Verb: taskv1.Verb_VERB_INSTALL, Failure: &Failure{}},
		"that is committed": {Verb: taskv1.Verb_VERB_INSTALL, Committed: true},
		"that removes":      {Verb: taskv1.Verb_VERB_REMOVE},
	} {
		if !c.Touched() {
			t.Errorf("a change %s counts as one that touched nothing", name)
		}
	}
}
