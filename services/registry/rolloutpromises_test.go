package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// waits returns a condition of what a rollout waits for, outside Read.
func (s *site) waits(id, text string) {
	s.t.Helper()
	have := ""
	bustest.Eventually(s.t, "the rollout waits for "+text, func() bool {
		q := &registryv1.GetRolloutRequest{RolloutId: id}
		have = must[*registryv1.GetRolloutResponse](s, "GetRollout", q).WaitsFor
		return strings.Contains(have, text)
	})
}

func (s *site) anyServer() (id string) {
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			id = server.Id
		}
	})
	return id
}

func TestAPlanOfManyServersIsRecordedInPartsAndRunsAsOne(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const servers = 2050
	s.fleet(servers)
	s.comeOnline()
	on := &intentv1.Selector{All: true}
	q := &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}}, On: on,
		Strategy: &rolloutv1.Strategy{
			Approve: true, Stages: []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Servers{Servers: 1}}},
		},
	}
	id := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}}).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	r := s.rollout(id)
	if r.OfParts < 2 || r.Parts != r.OfParts || len(r.Waves) != 2 || r.Waves[1].Servers != servers-1 {
		t.Errorf("the rollout has %d of %d parts and the waves %v", r.Parts, r.OfParts, r.Waves)
	}
	if n := s.count(ledger.Rollout, id, "planned"); n != int(r.OfParts) {
		t.Errorf("%d parts are in the ledger; want %d", n, r.OfParts)
	}
	listed := 0
	for cursor := ""; ; {
		page := must[*registryv1.ListRolloutTargetsResponse](s, "ListRolloutTargets",
			&registryv1.ListRolloutTargetsRequest{RolloutId: id, Page: &apiv1.Page{Cursor: cursor}})
		listed += len(page.Targets)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if listed != servers {
		t.Errorf("%d servers are listed; want %d", listed, servers)
	}
}

func TestAnUndoThatIsRecordedInPartsPausesTheRunningRolloutFirst(t *testing.T) {
	t.Parallel()
	s := startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	const servers, touched = 2060, 2050
	s.fleet(servers)
	s.comeOnline()
	soaks := &rolloutv1.Stage{
		Size: &rolloutv1.Stage_Servers{Servers: touched}, Soak: durationpb.New(time.Hour), // so it runs
	}
	q := &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}},
		On:    &intentv1.Selector{All: true}, Strategy: &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{soaks}},
	}
	id := s.accepted(topology.VerbRollout, &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}}).Id
	s.eventually("the first wave is installed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].SettledAt != nil
	})
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo)
	have := names(s.facts(ledger.Rollout, id))
	if n := len(have); !slices.Equal(have[n-2:], []string{"paused", "undone"}) {
		t.Errorf("the last facts are %v; want a pause, and the undo", have[n-2:])
	}
	if r := s.rollout(undoing.Id); r.OfParts < 2 || r.Parts != r.OfParts {
		t.Errorf("the undo has %d of %d parts", r.Parts, r.OfParts)
	}
}

func TestAPlanThatWasRecordedInPartIsAbortedAndItsIntentRefused(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	in, id, server := waves(&rolloutv1.Strategy{}), ident.New(), s.anyServer()
	s.append(fact(ledger.Rollout, id, &rolloutv1.Planned{
		Strategy: &rolloutv1.Strategy{}, Waves: []uint32{1}, Agents: []string{"web"}, Part: 1, Parts: 2,
		Targets: []*rolloutv1.Target{{ServerId: server, Wave: 1, Changes: []*rolloutv1.Change{{Agent: "web"}}}},
	}))
	data, err := protojson.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	subject := topology.IntentSubject(topology.VerbRollout, "alice", id)
	s.publishRaw(bus.Durable{Subject: subject, Once: true, Type: "application/json", Data: data})
	if r := s.outcome(id); r.Refusal.GetCode() != code.PlanInterrupted {
		t.Errorf("the intent is %v; want it refused with %s", r, code.PlanInterrupted)
	}
	if r := s.rollout(id); r.State != rolloutv1.State_STATE_ABORTED {
		t.Errorf("the rollout is %s; want it aborted", r.State)
	}
	if n := s.versions()["1.0.0"]; n != 2 {
		t.Errorf("%d servers are as before; want 2", n)
	}
}

func TestAKeepBudgetHoldsServersBackUntilAnotherOneWorks(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	var racks [2][]string
	s.r.follower.Read(func() {
		n := 0
		for server := range s.r.records.View.AllServers() {
			racks[n%2] = append(racks[n%2], server.Id)
			n++
		}
	})
	for n, rack := range racks {
		for _, id := range rack {
			must[*registryv1.ChangeServerResponse](s, "ChangeServer", &registryv1.ChangeServerRequest{
				Server: id, SetLabels: map[string]string{"rack": fmt.Sprint("r", n)},
			})
		}
	}
	s.append(fact(ledger.Server, racks[0][0], &serverv1.Offline{}))
	one := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}
	strategy := &rolloutv1.Strategy{Keep: []*rolloutv1.Keep{{Field: "label.rack", Working: one}}}
	in := waves(strategy)
	in.GetRollout().Strategy.Stages = nil
	id := s.accepted(topology.VerbRollout, in).Id
	// Each look at the view finds a server of the second rack that works, although both change.
	s.eventually("the second rack changed", nil, func() bool {
		working, done := 0, 0
		for _, server := range racks[1] {
			if i, _ := s.r.records.View.Instance(server, "web"); i.GetState() == instancev1.State_STATE_CONVERGED {
				working++
			}
			if target, _ := s.r.records.View.Target(id, server); target.GetState() ==
				rolloutv1.TargetState_TARGET_STATE_SUCCEEDED {
				done++
			}
		}
		if working == 0 {
			t.Error("no server of the second rack works")
		}
		return done == 2
	})
	s.waits(id, "more working servers with label.rack r0")
	if i, _ := s.wantedVersion(racks[0][1], "web"); i != "1.0.0" {
		t.Errorf("the last working server of the first rack is wanted at %s", i)
	}
	s.append(fact(ledger.Server, racks[0][0], &serverv1.Online{}))
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
}

func (s *site) wantedVersion(server, agent string) (v string, ok bool) {
	s.r.follower.Read(func() {
		var i *instancev1.Instance
		i, ok = s.r.records.View.Instance(server, agent)
		v = i.GetWanted().GetVersion()
	})
	return v, ok
}

func TestAServerThatFallsSilentAfterItWasReachedHaltsTheRollout(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 3)
	in := waves(&rolloutv1.Strategy{Silence: durationpb.New(time.Millisecond)})
	id := s.accepted(topology.VerbRollout, in).Id
	reached := ""
	bustest.Eventually(t, "a server is reached", func() bool {
		s.r.follower.Read(func() {
			for target := range s.r.records.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_REACHED) {
				reached = target.ServerId
			}
		})
		return reached != ""
	})
	s.append(fact(ledger.Server, reached, &serverv1.Offline{}))
	bustest.Eventually(t, "the rollout halts", func() bool {
		return s.rollout(id).State == rolloutv1.State_STATE_HALTED
	})
	have := names(s.facts(ledger.Rollout, id))
	if !slices.Contains(have, "silenced") {
		t.Errorf("recorded %v; want that the server was counted as broken", have)
	}
	if r := s.rollout(id); r.Reason.GetCode() != code.TooManyBroken {
		t.Errorf("halted for %v; want %s", r.Reason, code.TooManyBroken)
	}
}

func TestARolloutStopsAfterTheWaveThatItWasResumedTo(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Approve: true})).Id
	s.eventually("the canary passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	resume := func(until uint32) {
		t.Helper()
		must[*registryv1.ControlRolloutResponse](s, "ControlRollout", &registryv1.ControlRolloutRequest{
			RolloutId: id, Control: registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME, UntilWave: until,
		})
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	resume(2)
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.eventually("the second wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[1].PassedAt != nil
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE)
	s.waits(id, "it was to stop after wave 2")
	if have := s.versions(); have["1.1.0"] != 4 {
		t.Errorf("versions %v; want the third wave to wait", have)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_STEP)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	q := &registryv1.ControlRolloutRequest{
		RolloutId: id, Control: registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME, UntilWave: 9,
	}
	if c := s.code("ControlRollout", q); c != code.BadStrategy {
		t.Errorf("a resume to a wave that does not exist: %s", c)
	}
	if c := s.code("ListRolloutTargets", &registryv1.ListRolloutTargetsRequest{
		RolloutId: id, Wave: new(uint32(9)),
	}); c != code.BadStrategy {
		t.Errorf("the servers of a wave that does not exist: %s", c)
	}
}

func TestARolloutBringsAConfigurationInWavesAndTakesItBack(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Steps = []*intentv1.Step{{Change: &intentv1.Step_Configure{Configure: &intentv1.Configure{
		Agent: "web", Set: map[string]string{"level": "debug"},
	}}}}
	p := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{Intent: in})
	if len(p.Values) != 1 || p.Values[0].From != nil || p.Values[0].GetTo() != "debug" || p.Values[0].Servers != 4 {
		t.Errorf("the plan shows the values %v; want level to become debug on 4 servers", p.Values)
	}
	id := s.accepted(topology.VerbRollout, p.Intent).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if n := s.configured("level", "debug"); n != 4 {
		t.Errorf("%d servers have the value; want 4", n)
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo).Id
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	if n := s.configured("level", "debug"); n != 0 {
		t.Errorf("%d servers still have the value", n)
	}
}

// configured returns how many instances of web have a value.
func (s *site) configured(name, value string) (n int) {
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			if i.GetConfiguration().GetMetadata()[name] == value {
				n++
			}
		}
	})
	return n
}

// A program does with the client what a person does with the commands.
func TestAProgramPlansStartsSteersAndUndoesARollout(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 12)
	c := client.New(s.ops, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := c.PlanRollout(ctx, &registryv1.PlanRolloutRequest{Intent: waves(&rolloutv1.Strategy{Approve: true})}, 0)
	if err != nil || len(p.Targets) != 12 {
		t.Fatalf("planned %d servers: %v; want 12", len(p.GetTargets()), err)
	}
	id, err := c.StartRollout(ctx, p.Intent)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.PauseRollout(ctx, id, "lunch")
	if err != nil || r.State != rolloutv1.State_STATE_PAUSED {
		t.Fatalf("paused: %v, %v", r, err)
	}
	if r, err = c.ResumeRollout(ctx, id, ""); err != nil || r.State != rolloutv1.State_STATE_RUNNING {
		t.Fatalf("resumed: %v, %v", r, err)
	}
	s.eventually("the canary passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].PassedAt != nil
	})
	if r, err = c.ApproveRollout(ctx, id, "seen"); err != nil || r.Waves[1].ApprovedBy == "" {
		t.Fatalf("approved: %v, %v", r, err)
	}
	if r, err = c.AbortRollout(ctx, id, "enough"); err != nil || r.State != rolloutv1.State_STATE_ABORTED {
		t.Fatalf("aborted: %v, %v", r, err)
	}
	looks := 0
	for at, err := range c.WatchRollout(ctx, id) {
		if looks++; err != nil || at.GetRollout().GetState() != rolloutv1.State_STATE_ABORTED {
			t.Fatalf("watched: %v, %v", at, err)
		}
	}
	if looks != 1 {
		t.Errorf("a rollout that ended was looked at %d times; want once", looks)
	}
	undo, err := c.UndoRollout(ctx, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the canary is back", nil, func() bool {
		r, _ := s.r.records.View.Rollout(undo)
		for n := range r.GetWaves() {
			if r.Waves[n].OpenedAt == nil && r.Waves[n].ApprovedBy == "" {
				return r.Waves[0].PassedAt != nil
			}
		}
		return r.GetState() == rolloutv1.State_STATE_SUCCEEDED
	})
	if _, err := c.StartRollout(ctx, install("web", on())); !fault.Is(err, fault.Invalid) {
		t.Errorf("an install as a rollout: %v; want it refused", err)
	}
	if _, err := c.PauseRollout(ctx, id, ""); fault.RefusalOf(err).GetCode() != code.RolloutNotFit {
		t.Errorf("a pause after the end: %v; want %s", err, code.RolloutNotFit)
	}
}

func TestAnUndoWithNothingToTakeBackNamesTheWayToEndAHaltedRollout(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	one := &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: 1}}
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Stages: []*rolloutv1.Stage{one}})).Id
	s.eventually("it halts and takes its server back", func(string) bool { return true }, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && s.r.records.View.CountUnrestored(id) == 0
	})
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	refused := s.outcome(s.publish(topology.VerbRollout, undo)).GetRefusal()
	if want := "garrison rollout abort " + id; refused.GetCode() != code.NothingLeft || refused.GetTry() != want {
		t.Errorf("the undo: %v; want %s and %q", refused, code.NothingLeft, want)
	}
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT)
	refused = s.outcome(s.publish(topology.VerbRollout, undo)).GetRefusal()
	if !strings.Contains(refused.GetTry(), "show") {
		t.Errorf("the undo of what ended: %v", refused)
	}

	next := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{Approve: true})).Id
	_, err := bus.Call[*registryv1.GetRolloutResponse](t.Context(), s.ops, ledger.Registry,
		methods.ByName("GetRollout"), &registryv1.GetRolloutRequest{RolloutId: "0"})
	text := fmt.Sprint(err)
	if codeOf(err) != code.AmbiguousRollout || !strings.Contains(text, id) || !strings.Contains(text, next) {
		t.Errorf("the start of two ids: %v; want %s with both", err, code.AmbiguousRollout)
	}
}
