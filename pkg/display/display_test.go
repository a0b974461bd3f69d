package display

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/listing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestAnIntentOfManyServersHasOneLine(t *testing.T) {
	many := &intentv1.Intent{
		Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
			Agent: "beacon", On: &intentv1.Selector{Servers: make([]string, 209)},
			Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: "01a21d00"}},
		}},
		Source: &intentv1.Source{RolloutId: "01a21d54-86bd-7000-8000-000000000001", Wave: 3, Version: "1.6.0"},
	}
	if got, want := BriefText(many), "wave 3: beacon@1.6.0 on 209 servers, rollout 01a21d54-86bd"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	if n := len(many.GetUpgrade().GetOn().GetServers()); n != 209 {
		t.Errorf("the intent has %d servers afterwards", n)
	}
}

func TestTheStateOfAServerNamesWhatIsExceptional(t *testing.T) {
	online := func(s *serverv1.Server) *serverv1.Server {
		s.Life, s.Presence = serverv1.Life_LIFE_ALIVE, serverv1.Presence_PRESENCE_ONLINE
		return s
	}
	for want, s := range map[string]*serverv1.Server{
		"invited":                  {Life: serverv1.Life_LIFE_INVITED},
		"alive,online":             online(&serverv1.Server{}),
		"alive,online,quarantined": online(&serverv1.Server{Standing: serverv1.Standing_STANDING_QUARANTINED}),
		"alive,online,ahead":       online(&serverv1.Server{Ahead: &serverv1.ServerAhead{}}),
		"alive,online,found":       online(&serverv1.Server{FoundMore: 1}),
		"dead":                     {Life: serverv1.Life_LIFE_DEAD},
		"dead,leaked":              {Life: serverv1.Life_LIFE_DEAD, Duties: []*serverv1.Duty{{}}},
	} {
		if got := ServerState(s); got != want {
			t.Errorf("have %s, want %s", got, want)
		}
	}
}

func TestTheReasonOfATaskHasTheStepTheCodeAndTheText(t *testing.T) {
	o := &taskv1.Outcome{FailedStep: taskv1.Step_STEP_FETCH, Code: "NO_SPACE", Reason: "disk full"}
	if got, want := TaskReason(&taskv1.Task{Outcome: o}), "at fetch: NO_SPACE: disk full"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	if got, want := TaskReason(&taskv1.Task{Reason: "superseded"}), "superseded"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestASlowStepHasItsUsualDuration(t *testing.T) {
	task := &taskv1.Task{Live: &taskv1.Live{
		Step: taskv1.Step_STEP_FETCH, Since: timestamppb.New(noon.Add(-40 * time.Second)), DoneBytes: 4, TotalBytes: 10,
		Usual: durationpb.New(10 * time.Second), Slow: true,
	}}
	if got, want := LiveText(listing.View{At: noon}, task), "fetch 40% for 40s, slow (usually 10s)"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestATaskIsStartedOnceItsServerReportsIt(t *testing.T) {
	before := func(seconds time.Duration) *timestamppb.Timestamp {
		return timestamppb.New(noon.Add(-seconds * time.Second))
	}
	assigned := &taskv1.Task{
		State: taskv1.State_STATE_ASSIGNED, Live: &taskv1.Live{Since: before(38)}, Deadline: before(-540),
	}
	if got, want := LiveText(listing.View{At: noon}, assigned), "not started for 38s"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	if got, want := taskNext(listing.View{At: noon}, assigned), "starts within 9m"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	assigned.ServerOfflineSince, assigned.Reason = before(60), "server offline since 12:00"
	const later = "starts when the server is back, within 9m"
	if got := taskNext(listing.View{At: noon}, assigned); got != later {
		t.Errorf("have %q, want %q", got, later)
	}
	if got, want := ExplainTask(listing.View{At: noon}, assigned).Reason,
		"server offline since 12:00; not started for 38s"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	running := &taskv1.Task{
		State: taskv1.State_STATE_RUNNING, Live: &taskv1.Live{Since: before(38)}, Since: before(5),
	}
	if got, want := LiveText(listing.View{At: noon}, running), "started for 5s"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestAnIntentIsShownAsItsCommandLine(t *testing.T) {
	all := &intentv1.Selector{All: true}
	version := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.2.3"}}
	for want, i := range map[string]*intentv1.Intent{
		"install web@1.2.3 --on all": {Ask: &intentv1.Intent_Install{
			Install: &intentv1.Install{Agent: "web", Image: version, On: all},
		}},
		"up web --on all --strict": {Strict: true, Ask: &intentv1.Intent_Upgrade{
			Upgrade: &intentv1.Upgrade{Agent: "web", On: all},
		}},
		"configure web --set 'a=b c' --unset d --on all": {Ask: &intentv1.Intent_Configure{
			Configure: &intentv1.Configure{
				Agent: "web", Set: map[string]string{"a": "b c"}, Unset: []string{"d"}, On: all,
			},
		}},
		"remove web --on all by rollout 42": {
			Source: &intentv1.Source{RolloutId: "42", Wave: 1},
			Ask:    &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "web", On: all}},
		},
		"remove web --on all by the default of environment prod": {
			Source: &intentv1.Source{Environment: "prod"},
			Ask:    &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "web", On: all}},
		},
		"rollout start web@1.2.3 --configure db --set a=b --title 'a and b' --on all": {Ask: &intentv1.Intent_Rollout{
			Rollout: &intentv1.Rollout{On: all, Title: "a and b", Steps: []*intentv1.Step{
				{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "web", Image: version}}},
				{Change: &intentv1.Step_Configure{
					Configure: &intentv1.Configure{Agent: "db", Set: map[string]string{"a": "b"}},
				}},
			}},
		}},
		"rollout start web db --remove --on all": {Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
			On: all, Steps: []*intentv1.Step{
				{Change: &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: "web"}}},
				{Change: &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: "db"}}},
			},
		}}},
		"undo 42": {Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: "42"}}},
		"undo 43 --override": {
			Override: true, Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: "43"}},
		},
		"undo 44 --override": {Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
			UndoOf: "44", Strategy: &rolloutv1.Strategy{Override: true},
		}}},
		"server decommission web-1 --lost": {Ask: &intentv1.Intent_Decommission{
			Decommission: &intentv1.Decommission{Server: "web-1", Lost: true},
		}},
	} {
		if got := IntentText(i); got != want {
			t.Errorf("have %q, want %q", got, want)
		}
	}
}

func TestProgressCountsWhatIsToComeAndWhatFailed(t *testing.T) {
	c := &dispatcherv1.IntentCounts{ToOpen: 1, Running: 2, Succeeded: 4, Undone: 3, NeverOpened: 1}
	if ToCome(c) != 3 || Failed(c) != 4 || Changes(c) != 11 {
		t.Errorf("to come %d, failed %d, changes %d", ToCome(c), Failed(c), Changes(c))
	}
	if got, want := ProgressText(c), "4 succeeded, 1 to open, 2 running, 3 undone, 1 not started"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestAForecastSaysInHowManyRunsARolloutDoesNotEnd(t *testing.T) {
	for want, f := range map[string]*registryv1.ForecastRolloutResponse{
		"in 7 runs: look at the budgets and gates": {Runs: 10, Succeeded: 2, Halted: 1},
		"": {Runs: 10, Succeeded: 9, Halted: 1},
	} {
		have := ""
		for _, pair := range ForecastPairs(f) {
			if pair[0] == "DOES NOT END" {
				have = pair[1]
			}
		}
		if have != want {
			t.Errorf("%v: have %q, want %q", f, have, want)
		}
	}
}

func TestAPlanThatDoesNotEndSaysSo(t *testing.T) {
	for want, f := range map[string]*registryv1.ForecastRolloutResponse{
		"": {},
		"does not end in any of 20 runs: look at the budgets and gates": {Runs: 20},
		"halts in 8 of 20 runs; from 57 tasks of the last 7 days, 3.0 % of which failed": {
			Runs: 20, Halted: 8, Tasks: 57, FailedPermille: 30,
		},
		"no forecast: it would rest on 3 tasks of the last 7 days, 66.6 % of which failed, which is little": {
			Runs: 20, Halted: 20, Tasks: 3, FailedPermille: 666,
		},
		"halts in 5 of 20 runs, or takes 0s once it has begun; from 57 tasks of the last 7 days, " +
			"3.0 % of which failed": {
			Runs: 20, Succeeded: 15, Halted: 5, Tasks: 57, FailedPermille: 30,
		},
		"takes 0s once it has begun; from 9 tasks of the last 7 days, which is little": {
			Runs: 20, Succeeded: 20, Tasks: 9,
		},
	} {
		if have := TakesText(f); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestAReasonWithoutACodeIsItsText(t *testing.T) {
	if have := Reason(&apiv1.Refusal{Message: "lunch"}); have != "lunch" {
		t.Errorf("what a person said is %q", have)
	}
	r := &registryv1.RolloutReason{Count: 1, ServerNames: []string{"c-2"}}
	if have, want := RolloutReason(r), "1 × no reason is recorded (c-2)"; have != want {
		t.Errorf("have %q, want %q", have, want)
	}
}

func TestTheReasonOfARolloutNamesTheStepOnce(t *testing.T) {
	r := &registryv1.RolloutReason{
		Count: 1, Step: "fetch", Code: "NO_SPACE", First: "web, step fetch: disk full", ServerNames: []string{"web-1"},
	}
	if got, want := RolloutReason(r), "1 × NO_SPACE: web, step fetch: disk full (web-1)"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestTheNextStepOfARevokedServerIsItsNewTokenWhileThatIsValid(t *testing.T) {
	for name, c := range map[string]struct {
		until *timestamppb.Timestamp
		want  string
	}{
		"without a token":         {nil, "garrison server enroll web-1"},
		"with a token":            {timestamppb.New(noon.Add(time.Hour)), "joins within 1h"},
		"with one that has ended": {timestamppb.New(noon.Add(-time.Hour)), "garrison server enroll web-1"},
	} {
		s := &serverv1.Server{
			Name: "web-1", Life: serverv1.Life_LIFE_ALIVE, Standing: serverv1.Standing_STANDING_REVOKED,
			TokenExpiresAt: c.until,
		}
		if have := serverNext(listing.View{At: noon}, s); have != c.want {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}

// An invitation whose token expired is in the way of another one until it is forgotten.
func TestTheNextStepOfAnExpiredInvitationIsToForgetIt(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-10 * time.Minute: "joins within 10m", time.Minute: "garrison server forget web-1",
	} {
		s := &serverv1.Server{
			Name: "web-1", Life: serverv1.Life_LIFE_INVITED, TokenExpiresAt: timestamppb.New(noon.Add(-ago)),
		}
		if have := serverNext(listing.View{At: noon}, s); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}
