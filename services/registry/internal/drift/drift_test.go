package drift

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

var now = time.Unix(1_800_000_000, 0)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(-d)) }

// healthy is a server and an agent on it that are as they are wanted.
func healthy() (*serverv1.Server, *instancev1.Instance) {
	s := &serverv1.Server{
		Id: "s", Name: "web-1", Environment: "prod", Life: serverv1.Life_LIFE_ALIVE,
		Presence: serverv1.Presence_PRESENCE_ONLINE, Standing: serverv1.Standing_STANDING_ENROLLED,
		Since: ago(time.Hour),
	}
	ref := &imagev1.Ref{Id: "i1", Version: "1.0.0", Digest: []byte{1}}
	i := &instancev1.Instance{
		Id: "x", ServerId: "s", Agent: "web", Generation: 1, TaskGeneration: 1, ObservedGeneration: 1, Wanted: ref,
		Observed: proto.CloneOf(ref), Health: instancev1.Health_HEALTH_GOOD, Since: ago(time.Hour),
		State: instancev1.State_STATE_CONVERGED, ObservedAt: ago(time.Minute), TaskState: taskv1.State_STATE_SUCCEEDED,
	}
	return s, i
}

func look(s *serverv1.Server, i *instancev1.Instance, images map[string]*imagev1.Image) Situation {
	return Situation{
		Server: s, Now: now, ConfirmedAt: now, Listening: now.Add(-time.Hour), Beat: time.Second,
		Instances: func(yield func(*instancev1.Instance) bool) {
			if i != nil {
				yield(i)
			}
		},
		Image: func(id string) (*imagev1.Image, bool) { m, ok := images[id]; return m, ok },
	}
}

func active() map[string]*imagev1.Image {
	return map[string]*imagev1.Image{"i1": {State: imagev1.State_STATE_ACTIVE}}
}

var all = Scope{Servers: true, Agents: true}

func TestAClockThatDiffersIsADifferenceOfItsOwn(t *testing.T) {
	s, i := healthy()
	at := look(s, i, active())
	at.ClockAhead, at.ClockSince = 2*time.Hour, now.Add(-time.Minute)
	rows, _ := Of(at, all)
	if len(rows) != 1 || rows[0].Cause != code.ClockSkew || rows[0].Remedy != byPerson ||
		rows[0].Observed != "2h ahead" ||
		!rows[0].Since.AsTime().Equal(at.ClockSince) || !strings.Contains(rows[0].Cure, "set the clock of the server") {
		t.Errorf("%v", rows)
	}
	if rows, _ := Of(at, Scope{Agents: true}); len(rows) != 0 {
		t.Errorf("among agents: %v", rows)
	}
	s.Condition = &serverv1.ServerCondition{
		State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, Code: code.ClockSkew,
	}
	if rows, _ := Of(at, all); len(rows) != 1 {
		t.Errorf("its executor says it too: %v", rows)
	}
}

func TestAServerThatTakesUnsignedImagesDiffersWhereTheRegistryHasKeys(t *testing.T) {
	for _, c := range []struct{ signed, wants, differs bool }{
		{true, false, true}, {true, true, false}, {false, false, false},
	} {
		s, i := healthy()
		s.Sysinfo = &serverv1.Sysinfo{WantsSignatures: c.wants}
		at := look(s, i, active())
		at.Signed = c.signed
		rows, _ := Of(at, Scope{Servers: true})
		if differs := len(rows) == 1 && rows[0].Cause == code.NoImageKeys; differs != c.differs || len(rows) > 1 {
			t.Errorf("%+v: %v", c, rows)
		}
	}
}

func TestAServerAsItIsWantedDiffersInNothing(t *testing.T) {
	s, i := healthy()
	if rows, agents := Of(look(s, i, active()), all); len(rows) != 0 || agents != 1 {
		t.Errorf("%v, %d agents; want no difference and 1 agent", rows, agents)
	}
}

const (
	failed, drifted = instancev1.State_STATE_FAILED, instancev1.State_STATE_DRIFTED
	pending         = instancev1.State_STATE_PENDING

	byPerson, byWaiting = registryv1.Remedy_REMEDY_PERSON, registryv1.Remedy_REMEDY_WAIT
)

// differences are what is changed of a healthy server, the cause that follows and its remedy.
var differences = []struct {
	want   string
	remedy registryv1.Remedy
	change func(s *serverv1.Server, i *instancev1.Instance)
}{
	{code.ServerOffline, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Presence = serverv1.Presence_PRESENCE_OFFLINE
	}},
	{code.NeverConnected, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) { s.Presence = 0 }},
	{code.ExpiredToken, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Life, s.TokenExpiresAt = serverv1.Life_LIFE_INVITED, ago(time.Minute)
	}},
	{code.ServerQuarantined, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Standing = serverv1.Standing_STANDING_QUARANTINED
	}},
	{code.LedgerBudget, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Standing = serverv1.Standing_STANDING_QUARANTINED
		s.Exclusion = &serverv1.Exclusion{Code: code.LedgerBudget}
	}},
	{code.ServerRevoked, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Standing = serverv1.Standing_STANDING_REVOKED
	}},
	{code.LoginExpired, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.CredentialsExpireAt = ago(time.Minute)
	}},
	{code.LedgerBehind, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Ahead = &serverv1.ServerAhead{}
	}},
	{code.DuplicateIdentity, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Duplicate = &serverv1.ServerDuplicate{}
	}},
	{code.ClockSkew, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Condition = &serverv1.ServerCondition{
			State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, Code: code.ClockSkew,
		}
	}},
	{code.ExecutorSuspended, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Condition = &serverv1.ServerCondition{
			State: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, Code: "MADE_UP",
		}
	}},
	{code.InventoryUntrusted, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Condition = &serverv1.ServerCondition{
			State: serverv1.ExecutorState_EXECUTOR_STATE_RUNNING, Code: code.InventoryUntrusted,
		}
	}},
	{code.ServerLeaving, byWaiting, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Life = serverv1.Life_LIFE_DYING
	}},
	{code.WantedOnDead, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Life = serverv1.Life_LIFE_DEAD
	}},
	{code.FoundLink, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Found = []*serverv1.FoundAgent{{Agent: "old", Trace: serverv1.Trace_TRACE_LINK}}
	}},
	{code.FoundProcess, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) {
		s.Found = []*serverv1.FoundAgent{{Agent: "old", Trace: serverv1.Trace_TRACE_PROCESS}}
	}},
	{code.MoreFound, byPerson, func(s *serverv1.Server, _ *instancev1.Instance) { s.FoundMore = 3 }},
	{code.ChangeWaits, byWaiting, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.TaskState = pending, taskv1.State_STATE_QUEUED
	}},
	{code.ChangeRuns, byWaiting, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.TaskState = pending, taskv1.State_STATE_RUNNING
	}},
	{code.Damaged, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Health, i.ObservedCode = failed, instancev1.Health_HEALTH_BAD, code.Damaged
	}},
	{code.Unhealthy, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Health, i.ObservedCode = failed, instancev1.Health_HEALTH_BAD, "MADE_UP"
	}},
	{code.RunsBeside, byPerson, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Health, i.ObservedCode = failed, instancev1.Health_HEALTH_BAD, code.RunsBeside
	}},
	{code.LinkMissing, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed, i.ObservedCode = drifted, nil, code.LinkMissing
	}},
	{code.AgentLost, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed = drifted, nil
	}},
	{code.WrongImage, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed = drifted, &imagev1.Ref{Id: "other"}
	}},
	{code.OtherDigest, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed.Digest = drifted, []byte{9}
	}},
	{code.ConfigurationDiffers, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.ObservedConfigurationDigest = drifted, []byte{9}
	}},
	{code.NotReady, byPerson, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed, i.TaskState = failed, &imagev1.Ref{Id: "before"}, taskv1.State_STATE_UNDONE
		i.TaskCode = code.NotReady
	}},
	{code.ExecutorTooOld, byPerson, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed, i.ObservedAt = failed, nil, nil
		i.TaskState, i.TaskCode = taskv1.State_STATE_FAILED, code.ExecutorTooOld
	}},
	{code.ChangeExpired, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed, i.ObservedAt, i.TaskState = failed, nil, nil, taskv1.State_STATE_EXPIRED
	}},
	{code.ChangeFailed, registryv1.Remedy_REMEDY_REMOVE, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Wanted, i.TaskState = failed, nil, taskv1.State_STATE_FAILED
	}},
	{code.NeverInstalled, registryv1.Remedy_REMEDY_UP, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.State, i.Observed, i.ObservedAt, i.TaskState = failed, nil, nil, 0
	}},
	{code.ImageGone, byPerson, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.Wanted.Id, i.Observed.Id = "z", "z"
	}},
	{code.ImageDisabled, byPerson, func(_ *serverv1.Server, i *instancev1.Instance) {
		i.Wanted.Id, i.Observed.Id = "off", "off"
	}},
}

func TestEachDifferenceHasItsCause(t *testing.T) {
	for _, c := range differences {
		t.Run(c.want, func(t *testing.T) {
			s, i := healthy()
			c.change(s, i)
			images := active()
			images["off"] = &imagev1.Image{State: imagev1.State_STATE_DISABLED}
			rows, _ := Of(look(s, i, images), all)
			n := slices.IndexFunc(rows, func(d *registryv1.Difference) bool { return d.Cause == c.want })
			if n < 0 {
				t.Fatalf("differences %v; want %s", rows, c.want)
			}
			d := rows[n]
			if d.Remedy != c.remedy || d.Cure == "" || d.Wanted == "" || d.Observed == "" || d.ServerName != "web-1" {
				t.Errorf("%v; want remedy %s, with a cure, what is wanted and what was observed", d, c.remedy)
			}
			if _, ok := code.Lookup(d.Cause); !ok {
				t.Errorf("%s is not declared", d.Cause)
			}
		})
	}
}

func TestAReportThatIsNotConfirmedForTwelveBeatsIsStale(t *testing.T) {
	s, i := healthy()
	at := look(s, i, active())
	for silent, want := range map[time.Duration]int{12 * time.Second: 0, 13 * time.Second: 1} {
		at.ConfirmedAt = now.Add(-silent)
		if rows, _ := Of(at, all); len(rows) != want || want > 0 && rows[0].Cause != code.StaleReport {
			t.Errorf("%s without a confirmation: %v; want %d differences", silent, rows, want)
		}
	}
	at.Listening = now // this replica has just begun to receive beats
	if rows, _ := Of(at, all); len(rows) > 0 {
		t.Errorf("right after the start: %v; want none", rows)
	}
}

func TestAChangeOnAServerThatIsAwayWaitsForTheServer(t *testing.T) {
	s, i := healthy()
	s.Presence, i.State = serverv1.Presence_PRESENCE_OFFLINE, instancev1.State_STATE_PENDING
	rows, _ := Of(look(s, i, active()), Scope{Agents: true})
	if len(rows) != 1 || rows[0].Cause != code.ServerOffline || !strings.HasPrefix(rows[0].Reason, "its change waits") {
		t.Errorf("%v; want one, which waits for the server", rows)
	}
}

func TestAScopeLeavesTheRestOut(t *testing.T) {
	s, i := healthy()
	s.Presence, i.Observed, i.State = serverv1.Presence_PRESENCE_OFFLINE, nil, instancev1.State_STATE_DRIFTED
	for want, scope := range map[string]Scope{
		code.ServerOffline: {Servers: true}, code.AgentLost: {Agents: true, Servers: true, Agent: "web"},
	} {
		if rows, _ := Of(look(s, i, active()), scope); len(rows) != 1 || rows[0].Cause != want {
			t.Errorf("%+v: %v; want only %s", scope, rows, want)
		}
	}
}

// The registry refuses a second invitation of a name that is invited, so the cure withdraws the first one before.
func TestTheCureOfAnExpiredInvitationForgetsItBeforeItInvitesAgain(t *testing.T) {
	s, i := healthy()
	s.Life, s.TokenExpiresAt = serverv1.Life_LIFE_INVITED, timestamppb.New(now.Add(time.Hour))
	if rows, _ := Of(look(s, i, active()), Scope{Servers: true}); len(rows) != 0 {
		t.Errorf("before it expires: %v; want no difference", rows)
	}
	s.TokenExpiresAt = ago(time.Minute)
	rows, _ := Of(look(s, i, active()), all)
	want := "garrison server forget " + s.Id + ", then garrison server enroll web-1"
	if len(rows) == 0 || rows[0].Cure != want {
		t.Errorf("have %v, want the cure %q", rows, want)
	}
}
