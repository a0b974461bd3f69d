package change

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
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

func TestAnInterruptedChangeIsResumedABoundedNumberOfTimes(t *testing.T) {
	const bring, self, removal = "install, upgrade, configure, repair", "the executor itself", "removal"
	failed := func(r *Record) { r.Failure = &Failure{Step: taskv1.Step_STEP_PROVE} }
	for _, c := range []struct {
		name, life string
		step       taskv1.Step
		write      func(*Record)
		times      int // how often it is interrupted before it does not go on as it was
		then       State
	}{
		{"a switch", bring, taskv1.Step_STEP_SWITCH, nil, MaxCrashes, RollingBack},
		{"a health check", bring, taskv1.Step_STEP_PROVE, nil, MaxCrashes, RollingBack},
		{"a commit", bring, taskv1.Step_STEP_COMMIT, nil, MaxCrashes, RollingBack},
		{"a step of a newer executor", bring, 99, nil, MaxCrashes, RollingBack},
		{"a rehearsal", bring, taskv1.Step_STEP_REHEARSE, nil, MaxCrashes, Restored},
		{"the rehearsal of an executor", self, taskv1.Step_STEP_REHEARSE, nil, MaxCrashes, Restored},
		{"a fetch", bring, taskv1.Step_STEP_FETCH, nil, MaxInterruptions, Restored},
		{
			"a copy of the image", bring, taskv1.Step_STEP_REHEARSE,
			func(r *Record) { r.ReplacesImage = true }, MaxInterruptions, RollingBack,
		},
		{"a rollback", bring, taskv1.Step_STEP_UNDO, failed, MaxInterruptions, Broken},
		{"the rollback of an executor", self, taskv1.Step_STEP_UNDO, failed, MaxInterruptions, Broken},
		{"the link to a program", self, taskv1.Step_STEP_COMMIT,
			func(r *Record) { r.TrialPassed = true }, MaxInterruptions, RollingBack},
		{"a sweep", bring, taskv1.Step_STEP_SWEEP, func(r *Record) { r.Committed = true }, MaxInterruptions, Good},
		{"a sweep after a rollback", bring, taskv1.Step_STEP_SWEEP, failed, MaxInterruptions, RolledBack},
		{"a stop for a removal", removal, taskv1.Step_STEP_SWITCH, nil, MaxInterruptions, RollingBack},
		{
			"a deletion", removal, taskv1.Step_STEP_COMMIT,
			func(r *Record) { r.Committed = true }, MaxInterruptions, Broken,
		},
	} {
		r := newRecord(c.life)
		r.Step = c.step
		if c.write != nil {
			c.write(r)
		}
		for n := 1; n <= c.times; n++ {
			r.Interrupt()
			if at, next, exhausted := r.Recover(); exhausted != (n == c.times) || exhausted && next != c.then {
				t.Errorf("%s: after %d interruptions in %s, %s follows (exhausted %v); want %s after %d",
					c.name, n, at, next, exhausted, c.then, c.times)
			}
		}
	}
}

func TestAnExecutorThatWasStoppedDidNotCrash(t *testing.T) {
	for _, c := range []struct {
		step taskv1.Step
		want Interruptions
	}{
		{taskv1.Step_STEP_DEFER, Interruptions{}},
		{taskv1.Step_STEP_PROVE, Interruptions{Others: 1}}, // the version may be what stops it, so there is a bound
	} {
		r := newRecord("install, upgrade, configure, repair")
		r.Step, r.Stopped = c.step, true
		if r.Interrupt(); r.Interruptions != c.want || r.Stopped {
			t.Errorf("%s: %+v, want %+v; stopped %v", c.step, r.Interruptions, c.want, r.Stopped)
		}
	}
}

func TestAVersionFailedWhereItsServerSawItFail(t *testing.T) {
	for _, c := range []struct {
		name string
		of   Record
		want bool
	}{
		{"none", Record{}, false},
		{"not ready", Record{Failure: &Failure{Step: taskv1.Step_STEP_PROVE, Code: "NOT_READY"}}, true},
		{"took the machine down in its rehearsal",
			Record{Failure: &Failure{Step: taskv1.Step_STEP_REHEARSE, Code: "CRASHED_EXECUTOR"}}, true},
		{"not fetched", Record{Failure: &Failure{Step: taskv1.Step_STEP_FETCH, Code: "TIMED_OUT"}}, false},
		{"a full disk", Record{Failure: &Failure{Step: taskv1.Step_STEP_SWITCH, Code: "NO_SPACE"}}, false},
		{"a repair", Record{Repairs: RepairsImage, Failure: &Failure{Step: taskv1.Step_STEP_PROVE}}, false},
	} {
		if got := c.of.FailedByVersion(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
