package drift

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// The cure of UNKNOWN_VARIABLE named neither the server nor the label, and ended before the change that it allows.
func TestTheCureOfWhatARetryDoesNotHelpNamesWhatIsKnown(t *testing.T) {
	for _, c := range []struct{ cause, reason, want string }{
		{code.UnknownVariable, "the image's run uses ${label.rack}; known here: port",
			"garrison server set one rack=VALUE, then garrison up web@1.0.0 --on one; "},
		{code.UnknownVariable, "the image's run uses ${metadata.level}; known here: port",
			"garrison agent update web --set level=VALUE, then garrison up web@1.0.0 --on one"},
		{code.UnknownVariable, "the image's run uses ${hostname}; known here: port", "a version without it"},
		{code.BadTemplate, "template is wrong", "garrison configure web --set NAME=VALUE --bring-wanted --on one"},
		{code.BadTemplate, `web.conf: template: web.conf:1:9: executing "web.conf" at <.metadata.level>: map has no ` +
			`entry for key "level"`, "garrison configure web --set level=VALUE --bring-wanted --on one"},
		{code.BadTemplate, `web.conf: template: web.conf:1:9: executing "web.conf" at <.labels.tier>: map has no ` +
			`entry for key "tier"`, "garrison server set one tier=VALUE, then garrison up web@1.0.0 --on one"},
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

func TestTheCureOfADefaultThatWaitsIsThatOfItsRefusalForTheServer(t *testing.T) {
	s := Situation{Server: &serverv1.Server{Name: "one", Environment: "prod", Life: serverv1.Life_LIFE_ALIVE}}
	for _, c := range []struct {
		why    *apiv1.Refusal
		cause  string
		remedy registryv1.Remedy
		cure   string
	}{
		{&apiv1.Refusal{Code: code.MissingDependency, Try: "garrison install db --on SELECTOR"},
			code.MissingDependency, person, "garrison install db --on one"},
		{&apiv1.Refusal{Code: code.WrongPlatform}, code.WrongPlatform, person, "garrison env default prod"},
		{&apiv1.Refusal{Code: code.ServerReinstalling, Try: "garrison explain one"},
			code.ServerReinstalling, wait, "garrison explain one"},
	} {
		s.Defaults = []Default{{Agent: "web", Why: c.why}}
		d := s.ofDefault(s.Defaults[0])
		if d.Cause != c.cause || d.Remedy != c.remedy || d.Cure != c.cure || d.Agent != "web" {
			t.Errorf("%s: %v", c.why.Code, d)
		}
	}
}

func TestACancelledChangeNamesTheWayToWantWhatIsThere(t *testing.T) {
	one, two := &imagev1.Ref{Id: "1", Version: "1.0.0"}, &imagev1.Ref{Id: "2", Version: "2.0.0"}
	for want, i := range map[string]*instancev1.Instance{
		"garrison up web@1.0.0 --on one":      {Wanted: two, Observed: one},
		"garrison remove web --on one":        {Wanted: two},
		"garrison install web@1.0.0 --on one": {Observed: one},
		"garrison undo 42": {Wanted: one, Observed: one, Health: instancev1.Health_HEALTH_GOOD, IntentId: "42",
			ObservedConfigurationDigest: []byte("other")},
	} {
		i.Agent, i.State, i.TaskState = "web", instancev1.State_STATE_FAILED, taskv1.State_STATE_CANCELLED
		s := Situation{Server: &serverv1.Server{Name: "one", Life: serverv1.Life_LIFE_ALIVE}}
		s.Instances = func(yield func(*instancev1.Instance) bool) { yield(i) }
		rows, _ := Of(s, Scope{Agents: true})
		if len(rows) != 1 || rows[0].Cause != code.ChangeCancelled || rows[0].Cure == want ||
			rows[0].Reason != "its task was cancelled; to want what is there instead: "+want {
			t.Errorf("the differences are %v; want %s", rows, want)
		}
	}
}

// No intent changes the agents of a dying server: garrison remove is refused there with NOT_ALIVE.
func TestARemovalThatFailedOnADyingServerIsCuredByItsDecommission(t *testing.T) {
	s := Situation{Server: &serverv1.Server{Name: "one", Life: serverv1.Life_LIFE_DYING}}
	s.Instances = func(yield func(*instancev1.Instance) bool) {
		yield(&instancev1.Instance{
			Agent: "web", State: instancev1.State_STATE_FAILED, TaskState: taskv1.State_STATE_FAILED,
		})
	}
	rows, _ := Of(s, Scope{Agents: true})
	if len(rows) != 1 || rows[0].Cause != code.ChangeFailed || rows[0].Remedy != person ||
		rows[0].Cure != "garrison server decommission one" {
		t.Errorf("the differences are %v", rows)
	}
}

func TestDamageThatRestsSaysWhenItIsRepairedAgain(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	image := &imagev1.Ref{Id: "one", Version: "1.0.0"}
	i := &instancev1.Instance{
		Agent: "web", Wanted: image, Observed: image, Health: instancev1.Health_HEALTH_BAD,
		State: instancev1.State_STATE_FAILED, ObservedCode: code.Damaged, ObservedReason: "a file differs",
		ObservedNextAt: timestamppb.New(at),
	}
	s := Situation{Server: &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE}, Now: at.Add(-time.Minute)}
	if d := s.ofInstance(i); !d.GetNextAt().AsTime().Equal(at) || !strings.HasSuffix(d.Reason, "2026-01-31T12:00:00Z") {
		t.Errorf("while it rests: %v", d)
	}
	s.Now = at
	if d := s.ofInstance(i); d.GetNextAt() != nil || d.Reason != "a file differs" {
		t.Errorf("after the rest: %v", d)
	}
}

func TestNoRepairIsPromisedOfAServerThatIsAhead(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	image := &imagev1.Ref{Id: "one", Version: "1.0.0"}
	s := Situation{Now: at, Heals: true, Server: &serverv1.Server{
		Life: serverv1.Life_LIFE_ALIVE, Ahead: &serverv1.ServerAhead{},
	}}
	d := s.ofInstance(&instancev1.Instance{
		Agent: "web", Wanted: image, Observed: image, Health: instancev1.Health_HEALTH_BAD, ObservedCode: code.Damaged,
		State: instancev1.State_STATE_FAILED, ObservedReason: "why", ObservedAt: timestamppb.New(at),
	})
	if d.GetReason() != "why" || d.NextAt != nil {
		t.Errorf("the difference is %v", d)
	}
}

func TestTheNextStepOfTheExecutorIsSaid(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, code  string
		next        time.Time // as the executor says
		heals       bool
		want        time.Time
		wantsReason string
	}{
		{"a first repair", code.Damaged, time.Time{}, true, at.Add(topology.HealAfter),
			"; it is repaired by 2026-01-31T12:00:10Z"},
		{"damage that is not healed", code.Damaged, time.Time{}, false, time.Time{}, ""},
		{"a health check that fails", code.ProbeFails, time.Time{}, true, time.Time{}, ""},
		{"a crash loop", code.CrashLoop, at.Add(time.Minute), true, at.Add(time.Minute),
			"; it is started again at 2026-01-31T12:01:00Z"},
		{"a crash loop under another policy", code.CrashLoop, at.Add(time.Minute), false, at.Add(time.Minute),
			"; it is started again at 2026-01-31T12:01:00Z"},
	} {
		image := &imagev1.Ref{Id: "one", Version: "1.0.0"}
		i := &instancev1.Instance{
			Agent: "web", Wanted: image, Observed: image, Health: instancev1.Health_HEALTH_BAD,
			State: instancev1.State_STATE_FAILED, ObservedCode: c.code, ObservedReason: "why",
			ObservedAt: timestamppb.New(at),
		}
		if !c.next.IsZero() {
			i.ObservedNextAt = timestamppb.New(c.next)
		}
		s := Situation{
			Server: &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE}, Now: at.Add(time.Second), Heals: c.heals,
		}
		d := s.ofInstance(i)
		if d.Reason != "why"+c.wantsReason || (d.NextAt != nil) == c.want.IsZero() ||
			d.NextAt != nil && !d.NextAt.AsTime().Equal(c.want) {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}
