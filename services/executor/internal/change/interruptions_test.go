package change

import (
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

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
