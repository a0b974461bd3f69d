package change

import (
	"errors"
	"os"
	"strings"
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

var tables = map[string]Table{
	"install, upgrade, configure, repair": Bring,
	"the executor itself":                 Self,
	"removal":                             Removal,
}

// newRecord returns a record that follows a table.
func newRecord(name string) *Record {
	kind := agentv1.Kind_KIND_DAEMON
	r := &Record{Verb: taskv1.Verb_VERB_UPGRADE}
	switch name {
	case "the executor itself":
		kind = agentv1.Kind_KIND_SELF
	case "removal":
		r.Verb = taskv1.Verb_VERB_REMOVE
		return r
	}
	r.To.Manifest = &imagev1.Manifest{Id: "new", Kind: kind}
	return r
}

func TestEveryStateHasARowAStepAndAWayOutOfEveryEvent(t *testing.T) {
	ends := []State{Good, RolledBack, Failed, Dropped}
	for name, life := range tables {
		if err := life.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range life.States() {
			isEnd := false
			for _, e := range ends {
				isEnd = isEnd || s == e
			}
			if life.End(s) != isEnd {
				t.Errorf("%s: %s is an end: %v, want %v", name, s, life.End(s), isEnd)
			}
			if _, has := Steps[s]; has == isEnd {
				t.Errorf("%s: %s has a step: %v", name, s, has)
			}
			for _, e := range []Event{Done, Interrupted} {
				if _, ok := life.Next(s, e); ok == isEnd {
					t.Errorf("%s: %s can follow on %s: %v", name, e, s, ok)
				}
			}
			if _, fails := life.Next(s, Failing); !fails && s.Forward() && Touches(Steps[s]) {
				t.Errorf("%s: %s touches the agent and cannot fail", name, s)
			}
		}
	}
}

// What the record says after each step's line is where the change is after a crash.
func TestAnInterruptedChangeGoesOnWhereTheTableSays(t *testing.T) {
	for name, life := range tables {
		for _, s := range life.States() {
			if life.End(s) {
				continue
			}
			r := newRecord(name)
			r.Step = Steps[s]
			switch s {
			case Replacing:
				r.ReplacesImage = true
			case Committed, Starting:
				r.Committed = true
			case Deleting:
				r.Committed = true
			case RollingBack:
				r.Failure = &Failure{}
			case Restored:
				r.Failure = &Failure{}
			case Broken:
				r.Failure, r.RollbackError, r.Committed = &Failure{}, "why", r.Removes()
			case Committing:
				r.TrialPassed = r.To.IsSelf()
			}
			want, _ := life.Next(s, Interrupted)
			if at, next, _ := r.Recover(); next != want {
				t.Errorf("%s: after a crash in %s, seen as %s, it goes on with %s, want %s", name, s, at, next, want)
			}
		}
	}
}

func TestATrialIsDecidedByWhatWasWrittenOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		write    func(*Record)
		at, next State
	}{
		"nothing was":          {func(*Record) {}, Trial, RollingBack},
		"it passed":            {func(r *Record) { r.TrialPassed = true }, Committing, Committing},
		"it failed":            {func(r *Record) { r.Failure = &Failure{} }, RollingBack, RollingBack},
		"it never began":       {func(r *Record) { r.Step = taskv1.Step_STEP_REHEARSE }, Rehearsing, Dropped},
		"it passed, committed": {func(r *Record) { r.TrialPassed, r.Committed = true, true }, Starting, Starting},
		"never began, a repair": {
			func(r *Record) { r.Step, r.ReplacesImage = taskv1.Step_STEP_REHEARSE, true }, Replacing, Replacing,
		},
		"it failed, rolled back": {
			func(r *Record) { r.Step, r.Failure = taskv1.Step_STEP_SWEEP, &Failure{} }, Restored, Restored,
		},
		"a repair, not decided": {func(r *Record) { r.ReplacesImage = true }, Trial, RollingBack},
		"by a newer executor":   {func(r *Record) { r.Step = 99 }, Trial, RollingBack},
		"it passed, in a repair": {
			func(r *Record) { r.TrialPassed, r.ReplacesImage = true, true }, Committing, Committing,
		},
		"it failed, left a state": {
			func(r *Record) { r.Step, r.Failure = taskv1.Step_STEP_PROVE, &Failure{} }, RollingBack, RollingBack,
		},
	} {
		r := newRecord("the executor itself")
		r.Step = taskv1.Step_STEP_SWITCH
		c.write(r)
		if at, next, _ := r.Recover(); at != c.at || next != c.next {
			t.Errorf("%s: %s, then %s; want %s, then %s", name, at, next, c.at, c.next)
		}
	}
}

func TestAStepThatFailsIsRolledBackOnlyWhereSomethingWasTouched(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		life string
		at   State
		step taskv1.Step
		copy bool
		want State
	}{
		{"install, upgrade, configure, repair", Fetching, taskv1.Step_STEP_FETCH, false, Restored},
		{"install, upgrade, configure, repair", Rehearsing, taskv1.Step_STEP_REHEARSE, false, Restored},
		{"install, upgrade, configure, repair", Rehearsing, taskv1.Step_STEP_REHEARSE, true, RollingBack},
		{"install, upgrade, configure, repair", Switching, taskv1.Step_STEP_REHEARSE, false, Restored},
		{"install, upgrade, configure, repair", Switching, taskv1.Step_STEP_SWITCH, false, RollingBack},
		{"install, upgrade, configure, repair", Committing, taskv1.Step_STEP_COMMIT, false, RollingBack},
		{"install, upgrade, configure, repair", RollingBack, taskv1.Step_STEP_UNDO, false, Broken},
		{"the executor itself", Trial, taskv1.Step_STEP_REHEARSE, false, Restored},
		{"the executor itself", Starting, taskv1.Step_STEP_COMMIT, false, RollingBack},
		{"removal", Checking, taskv1.Step_STEP_CHECK, false, Restored},
		{"removal", MovingOut, taskv1.Step_STEP_COMMIT, false, RollingBack},
		{"removal", Deleting, taskv1.Step_STEP_COMMIT, false, Broken},
	} {
		r := newRecord(c.life)
		r.Step, r.ReplacesImage, r.Failure = c.step, c.copy, &Failure{}
		if next := r.Next(c.at, failed); next != c.want {
			t.Errorf("%s: %s fails: %s follows, want %s", c.life, c.at, next, c.want)
		}
	}
}

func TestTheDocumentationShowsTheTables(t *testing.T) {
	data, err := os.ReadFile("../../docs/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, life := range tables {
		want := "```mermaid\n" + life.Mermaid(Checking) + "```"
		if !strings.Contains(string(data), want) {
			t.Errorf("docs/changes.md does not hold the life of %s; put this there:\n%s", name, want)
		}
	}
}

func TestAReportHoldsNoSecretOfEitherVersion(t *testing.T) {
	r := &Record{
		Secrets: map[string]string{"password": "hunter2"},
		From:    &Instance{Secrets: map[string]string{"password": "hunter1"}},
		Failure: &Failure{Reason: "no login with hunter2", LogTail: "tried hunter2\nand hunter1\n"},
	}
	o := r.Report()
	if text := o.String(); strings.Contains(text, "hunter") || !strings.Contains(text, "<secret password>") {
		t.Errorf("reported %s", text)
	}
}
