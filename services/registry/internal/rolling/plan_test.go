package rolling_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

func TestServersWhoseLastChangeFailedComeLastUnlessTheyAreAlone(t *testing.T) {
	t.Parallel()
	w := fleet(4)
	bad := []string{"s000", "s001"}
	for _, w.server = range bad {
		w.failsThere("web 1.1.0")
	}
	w.image("web 1.2.0", "")
	for _, c := range []struct {
		on    *intentv1.Selector
		owed  uint32
		waves []uint32
	}{
		{&intentv1.Selector{All: true}, 2, []uint32{2}}, {&intentv1.Selector{Servers: bad}, 0, []uint32{2}},
	} {
		a := ask("r", "up web 1.2.0")
		a.Intent.GetRollout().On = c.on
		if p := rolling.Plan(w, a); p.Refusal != nil || p.Owed != c.owed || !slices.Equal(p.Waves, c.waves) {
			t.Errorf("%v: %v, waves %v, %d owed; want %v, %d", c.on, p.Refusal, p.Waves, p.Owed, c.waves, c.owed)
		}
	}
}

func TestWavesFollowTheConditionsOfStages(t *testing.T) {
	t.Parallel()
	w := fleet(5)
	for server, value := range map[string]string{"s000": "a", "s001": "a", "s002": "b"} {
		w.label(server, value)
	}
	p := w.asked(by(in(ring("a"), ring("b", "a"))))
	var have []string
	for _, x := range p.Targets {
		have = append(have, x.ServerId+" "+x.Because)
	}
	slices.Sort(have)
	want := []string{"s000 ring=a", "s001 ring=a", "s002 ring in (b,a)", "s003 the rest", "s004 the rest"}
	if diff := cmp.Diff(want, have); diff != "" || !slices.Equal(p.Waves, []uint32{2, 1, 2}) {
		t.Errorf("%v, waves %v: %s", p.Refusal, p.Waves, diff)
	}
}

// The plan shows from what each server changes, so it holds for nothing else. The time is not what it does.
func TestAPlanIsStaleOnceAServerWouldChangeFromAnotherVersion(t *testing.T) {
	t.Parallel()
	w := fleet(2)
	w.image("web 0.9.0", "")
	a := ask("r", "up web 1.1.0")
	a.Intent.GetRollout().StartAt = &timestamppb.Timestamp{Seconds: 2000}
	a.Intent = rolling.Plan(w, a).Intent
	a.Intent.GetRollout().StartAt = nil
	if why := rolling.Plan(w, a).Refusal; why != nil {
		t.Errorf("at another time: %v", why)
	}
	a.Intent.GetRollout().StartAt = &timestamppb.Timestamp{Seconds: 1}
	if why := rolling.Plan(w, a).Refusal; why.GetCode() != code.StartPassed {
		t.Errorf("at a time that has passed: %v", why)
	}
	a.Intent.GetRollout().StartAt = nil
	w.server = "s000"
	w.runs("web 0.9.0")
	if why := rolling.Plan(w, a).Refusal; why.GetCode() != code.PlanStale {
		t.Errorf("where 0.9.0 runs: %v", why)
	}
}

func TestAPlanThatWasRecordedInPartIsAbortedAndItsIntentRefused(t *testing.T) {
	t.Parallel()
	w := fleet(2)
	w.apply(ledger.Rollout, "r", &rolloutv1.Planned{
		Strategy: &rolloutv1.Strategy{}, Waves: []uint32{1}, Agents: []string{"web"}, Part: 1, Parts: 2,
		Targets: []*rolloutv1.Target{{ServerId: "s000", Wave: 1, Changes: []*rolloutv1.Change{{Agent: "web"}}}},
	})
	d := rolling.Decide(w, ask("r", "up web"))
	var names []string
	for _, x := range d.Last {
		names = append(names, x.Name())
	}
	want := []string{"aborted", "refused"}
	if d.Refusal.GetCode() != code.PlanInterrupted || len(d.Parts) > 0 || !slices.Equal(names, want) {
		t.Errorf("%v, %d parts, %v; want %v", d.Refusal, len(d.Parts), names, want)
	}
}

// input returns what a decision about a rollout of web 1.1.0 rests on.
func (w *world) input(t *testing.T) (r *rolloutv1.Rollout, refused func(server string) string) {
	t.Helper()
	w.start(t, "r", "up web 1.1.0")
	r, _ = w.Rollout("r")
	return r, func(server string) string {
		basis := &rolloutv1.Basis{At: &timestamppb.Timestamp{Seconds: 1000}}
		why := rolling.Input(w, r, basis).Refused(server)
		return strings.TrimSpace(why.GetCode() + " " + why.GetMessage())
	}
}

func TestAnImageThatWasDisabledOrDeletedKeepsARolloutFromItsServers(t *testing.T) {
	t.Parallel()
	w := fleet(2)
	_, refused := w.input(t)
	if have := refused("s000"); have != "" {
		t.Errorf("while its image is active: %s", have)
	}
	w.apply(ledger.Image, "web 1.1.0", &imagev1.Disabled{Reason: "it leaks"})
	if have := refused("s000"); !strings.HasPrefix(have, code.NotActive) || !strings.Contains(have, "it leaks") {
		t.Errorf("its image is disabled: %s", have)
	}
	w.apply(ledger.Image, "web 1.1.0", &imagev1.Deleted{})
	if have := refused("s000"); !strings.HasPrefix(have, code.NoMatch) || !strings.Contains(have, "was deleted") {
		t.Errorf("its image is deleted: %s", have)
	}
}

func TestARolloutHasTheKeepBudgetsOfTheEnvironmentsOfItsServers(t *testing.T) {
	t.Parallel()
	w := fleet(3)
	w.comes("apart")
	w.runs("web 1.0.0")
	w.apply(ledger.Environment, "prod", &environmentv1.Changed{
		Environment: &environmentv1.Environment{Keep: keeping("env").Keep},
	})
	r, _ := w.input(t)
	in := rolling.Input(w, r, &rolloutv1.Basis{At: &timestamppb.Timestamp{Seconds: 1000}})
	if s := in.Standing("s000"); len(s) != 1 || s[0].Count.Working != 3 || s[0].Count.All != 3 ||
		s[0].Keep.Field != "env" {
		t.Errorf("of a server of prod: %+v; want the budget, and three that work", s)
	}
	if s := in.Standing("apart"); len(s) != 0 {
		t.Errorf("of a server without an environment: %+v", s)
	}
}

func TestAServerJoinsTheLastWaveUntilItBeginsAndThenOneBehindIt(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	open, passed := &rolloutv1.Wave{OpenedAt: timestamppb.New(at)}, &rolloutv1.Wave{
		OpenedAt: timestamppb.New(at), PassedAt: timestamppb.New(at),
	}
	later := &rolloutv1.Strategy{JoinFor: durationpb.New(time.Minute)}
	const running, succeeded = rolloutv1.State_STATE_RUNNING, rolloutv1.State_STATE_SUCCEEDED
	of := func(s rolloutv1.State, waves ...*rolloutv1.Wave) *rolloutv1.Rollout {
		since := timestamppb.New(at)
		return &rolloutv1.Rollout{State: s, Since: since, FirstSucceededAt: since, Waves: waves}
	}
	undo, late := of(running, &rolloutv1.Wave{}), of(succeeded, passed)
	undo.Undoes, late.Strategy = "r", later
	again := proto.CloneOf(late)
	again.Since = timestamppb.New(at.Add(time.Minute)) // because of a server that joined
	for name, c := range map[string]struct {
		r     *rolloutv1.Rollout
		after time.Duration
		want  uint32
	}{
		"before the last wave":   {of(running, open, &rolloutv1.Wave{}), time.Second, 2},
		"during the last wave":   {of(running, passed, open), time.Second, 0},
		"after the last wave":    {of(running, passed, passed), time.Second, 3},
		"while it is paused":     {of(rolloutv1.State_STATE_PAUSED, &rolloutv1.Wave{}), time.Second, 0},
		"an undo":                {undo, time.Second, 0},
		"without a wave":         {of(running), time.Second, 0},
		"after its success":      {of(succeeded, passed), time.Second, 0},
		"as long as it says":     {late, time.Second, 2},
		"longer than it says":    {late, time.Hour, 0},
		"from its first success": {again, time.Minute, 0},
		"with the most waves":    {of(running, make([]*rolloutv1.Wave, 200)...), time.Second, 0},
	} {
		if have := rolling.JoinsAt(c.r, at.Add(c.after)); have != c.want {
			t.Errorf("%s: wave %d; want %d", name, have, c.want)
		}
	}
}

func TestThePlanOfALaterStartCostsWhatIsClosedThen(t *testing.T) {
	t.Parallel()
	w := fleet(2)
	w.apply(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{
		Freezes: []*environmentv1.Freeze{{Until: &timestamppb.Timestamp{Seconds: 2000}, Reason: "end of the year"}},
	}})
	now := time.Unix(1000, 0)
	for start, closed := range map[int64]int{0: 2, 1500: 2, 2001: 0} {
		p := w.asked(func(q *intentv1.Rollout) {
			if start > 0 {
				q.StartAt = &timestamppb.Timestamp{Seconds: start}
			}
		})
		if c := rolling.CostOf(w, p, p.Begins(now)); c.Closed != closed || closed > 0 && c.Until.Unix() != 2000 {
			t.Errorf("begun at %d it costs %+v; want %d closed servers", start, c, closed)
		}
	}
}
