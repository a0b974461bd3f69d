package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout/forecast"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

func canaries(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Canaries{Canaries: n}}
}

func TestAPlanNamesWhatNoCanaryCoversAndTheLabelsThatNoServerHas(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	f.Fact(ledger.Server, f.servers[0], &serverv1.Changed{
		Environment: "default", Labels: map[string]string{"rack": "a"},
	})
	for n, want := range map[uint32]int{1: 1, 2: 0} {
		p := f.plan(up(&rolloutv1.Strategy{Cover: []string{"env"}}, canaries(n)))
		if len(p.Uncovered) != want || want > 0 && !strings.HasPrefix(p.Uncovered[0], "env ") || p.MoreUncovered != 0 {
			t.Errorf("%d canaries for two environments: %q, %v", n, p.Uncovered, p.Refusal)
		}
	}
	keeps := func(field string) *rolloutv1.Keep {
		return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}}
	}
	p := f.plan(up(&rolloutv1.Strategy{
		Spread: "label.zone", Cover: []string{"env", "label.rack"},
		Keep: []*rolloutv1.Keep{keeps("label.rak"), keeps("label.rack"), keeps("platform")},
	}))
	want := []string{"label.rak", "label.zone"}
	if p.Refusal != nil || !slices.Equal(p.Unlabelled, want) || len(p.Uncovered) > 0 {
		t.Errorf("unlabelled %q, want %q; %v", p.Unlabelled, want, p.Refusal)
	}
}

func TestAPlanForEveryAgentNamesWhyNothingIsLeft(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	id := f.start(up(hurried()))
	f.until("it halts", everywhere, f.is(id, rolloutv1.State_STATE_HALTED))
	resp := recordstest.Call(f.World, f.api.get, &registryv1.GetRolloutRequest{RolloutId: id[:8]})
	if r := resp.Reasons; len(r) != 1 || r[0].Code != code.NotReady || r[0].Step != "prove" || r[0].Count != 2 {
		t.Errorf("reasons %v; want two servers that failed in step prove", resp.Reasons)
	}
	f.control(id, abort)
	in := up(nil)
	in.GetRollout().Steps = nil
	_, err := f.api.plan(t.Context(), alice, &registryv1.PlanRolloutRequest{Intent: in, EveryAgent: true})
	r := fault.RefusalOf(err)
	if r.GetCode() != code.NothingLeft || !strings.Contains(r.GetMessage(), "web: 2 left out: "+code.FailedBefore) ||
		!strings.HasPrefix(r.GetTry(), "garrison up web@1.1.0 ") {
		t.Errorf("refused with %v; want two servers left out as %s, and how to try again", r, code.FailedBefore)
	}
}

// damage has a server report that something changed web.
func (f *fleet) damage(server string) {
	i := f.Instance(server, "web")
	f.Fact(ledger.Instance, ledger.Key(server, "web"), &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation, Image: i.Wanted, Code: code.Damaged,
		Health: instancev1.Health_HEALTH_BAD, ConfigurationDigest: i.Configuration.GetDigest(),
	})
}

// repair is the plan of a repair of every agent, after a canary.
func (f *fleet) repair() (*registryv1.PlanRolloutResponse, error) {
	in := up(nil, canaries(1))
	in.GetRollout().Steps = nil
	q := &registryv1.PlanRolloutRequest{Intent: in, EveryAgent: true, Repair: true}
	return f.api.plan(f.T.Context(), alice, q)
}

func TestARepairInWavesChangesTheServersThatDriftAndNoVersion(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web")
	for _, s := range f.servers[1:] {
		f.damage(s)
	}
	p, err := f.repair()
	if err != nil || p.Refusal != nil || !slices.Equal(p.Waves, []uint32{1, 2}) || p.Title != "repair web" {
		t.Fatalf("planned %v, %v", p, err)
	}
	f.succeeds(f.start(p.Intent))
	f.wants("1.0.0", 4)
	if g := f.Instance(f.servers[0], "web").Generation; g != 1 {
		t.Errorf("the server that did not drift is in generation %d", g)
	}
	if _, err = f.repair(); recordstest.CodeOf(err) != code.NothingLeft {
		t.Errorf("a repair where nothing drifts: %v", err)
	}
}

// What changes the agent again after its repair halts the rollout in its first wave.
func TestARepairThatDoesNotLastHaltsItsRollout(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	for _, s := range f.servers {
		f.damage(s)
	}
	p, err := f.repair()
	if err != nil {
		t.Fatal(err)
	}
	id := f.start(p.Intent)
	f.look()
	for x := range f.View.TargetsOf(id, reached) {
		f.Do(f.Instance(x.ServerId, "web"), false)
		f.damage(x.ServerId)
	}
	f.look()
	if r := f.rollout(id); r.Reason.GetCode() != code.TooManyBroken || f.states(id)[pending] != 2 {
		t.Errorf("it is %v; want it halted in its first wave", r)
	}
	for _, s := range f.View.Suspects() {
		t.Errorf("%v is suspected; nothing new was brought", s)
	}
}

func TestARolloutPassesAFreezeOnlyWithAnOverrideOrInAnEmergency(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by     *rolloutv1.Strategy
		closed bool
	}{
		"as it is":        {&rolloutv1.Strategy{}, true},
		"in an emergency": {&rolloutv1.Strategy{Emergency: true}, false},
		"by an override":  {&rolloutv1.Strategy{Override: true}, false},
	} {
		f := running(t, 2, "web")
		f.freeze(true)
		p := f.plan(up(proto.CloneOf(c.by), taking(1)))
		if (p.Closed == 2) != c.closed || c.closed && !strings.Contains(p.ClosedBecause, "end of the year") {
			t.Errorf("%s: %d servers are closed because of %q", name, p.Closed, p.ClosedBecause)
		}
		id := f.start(up(c.by, taking(1)))
		if !c.closed {
			f.succeeds(id)
			continue
		}
		f.look()
		f.wants("1.0.0", 2)
		q := &registryv1.ControlRolloutRequest{RolloutId: id, Control: resume, Override: true}
		recordstest.Call(f.World, f.api.Control, q)
		f.succeeds(id)
		back := f.plan(undoOf(id, &rolloutv1.Strategy{Override: true}))
		if len(back.Waves) != 2 || !back.Strategy.Override || back.Closed != 0 {
			t.Errorf("its undo by an override has waves %v and %d closed servers", back.Waves, back.Closed)
		}
	}
}

// freeze freezes the environment for a day, or ends that.
func (f *fleet) freeze(is bool) {
	e := &environmentv1.Environment{}
	if is {
		until := f.At.Add(24 * time.Hour)
		e.Freezes = []*environmentv1.Freeze{{Until: timestamppb.New(until), Reason: "end of the year"}}
	}
	f.Fact(ledger.Environment, "prod", &environmentv1.Changed{Environment: e})
}

func TestServersThatJoinAreLookedForAfterAPauseUnlessTheFactIsRecorded(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	in := up(nil)
	in.GetRollout().On = recordstest.On(f.servers[0])
	id := f.start(in)
	f.succeeds(id)
	in.GetRollout().On = recordstest.Everywhere()
	r := proto.CloneOf(f.rollout(id))
	r.Strategy.JoinFor = durationpb.New(time.Hour)
	run := rolling.Run{Rollout: r, Ask: in.GetRollout(), At: f.At}
	w := NewWork(f.Records, nil, nil, zerolog.Nop())
	if first, second := len(w.Join(run, false)), len(w.Join(run, false)); first != 1 || second != 0 {
		t.Errorf("%d facts, and then %d before the pause is over; want 1 and 0", first, second)
	}
	run.At = run.At.Add(time.Hour / 2)
	if n := len(w.Join(run, false)); n != 1 {
		t.Errorf("%d facts after the pause; want 1: none was recorded", n)
	}
}

// The way back of a change that reached many servers at once goes through waves too; so does that of a rollout with
// stages, once no server has the labels that they were about.
func TestAnUndoOfWhatReachedManyServersGoesInWaves(t *testing.T) {
	t.Parallel()
	const waves = intent.MostAtOnce + 1
	f := newFleet(t, waves)
	label := func(labels map[string]string) {
		for _, s := range f.servers {
			f.Fact(ledger.Server, s, &serverv1.Changed{Environment: "prod", Labels: labels})
		}
	}
	label(map[string]string{"ring": "a"})
	staged := bringing()
	staged.GetRollout().Strategy = &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{{Of: &rolloutv1.Group{
		Where: []*rolloutv1.Match{{
			Field: "label.ring", Relation: rolloutv1.Relation_RELATION_IN, Values: []string{"a"},
		}},
	}}}}
	began := f.start(staged)
	f.succeeds(began)
	label(nil)
	planned := func(undone, title string) {
		t.Helper()
		p := f.plan(undoOf(undone, nil))
		if p.Refusal != nil || !slices.Equal(p.Waves, []uint32{3, 10, 50, 38}) || p.Title != title {
			t.Errorf("planned %q, waves %v, %v; want %q", p.Title, p.Waves, p.Refusal, title)
		}
		now := undoOf(undone, nil)
		if now.AtOnce = true; len(f.plan(now).Waves) != 1 {
			t.Errorf("%s at once: waves %v; want one", title, f.plan(now).Waves)
		}
	}
	planned(began, "undo of install web to 1.0.0")
	planned(f.Accept(topology.VerbConfigure, &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Configure{
		Configure: &intentv1.Configure{
			Agent: "web", On: recordstest.Everywhere(), Set: map[string]string{"level": "debug"},
		},
	}}), "undo of configure web")
}

func TestARolloutThatWaitsHasItsServersFetchAheadAndChangesNothing(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web")
	until := f.At.Add(24 * time.Hour)
	f.Fact(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{
		FetchAlways: true, Freezes: []*environmentv1.Freeze{{Until: timestamppb.New(until)}},
	}})
	if p := f.plan(up(nil, taking(1))); p.Closed != 4 || p.Primed != 4 {
		t.Errorf("%d servers are closed and %d fetch ahead; want 4 and 4", p.Closed, p.Primed)
	}
	id := f.start(up(nil, taking(1)))
	f.until("they are asked to fetch ahead", nil, func() bool { return f.rollout(id).Primed == 4 })
	asked := 0
	for _, x := range f.Facts {
		a, _ := x.Body.(*intentv1.Accepted)
		if ahead := a.GetIntent().GetRefresh().GetAhead(); ahead != nil {
			asked += len(a.ServerIds)
			if keeps := ahead.KeepUntil.AsTime().Sub(f.At); keeps < 7*24*time.Hour || keeps > 9*24*time.Hour {
				t.Errorf("it is kept for %s", keeps)
			}
		}
	}
	if f.wants("1.0.0", 4); asked != 4 {
		t.Errorf("%d servers were asked", asked)
	}
	f.freeze(false)
	f.succeeds(id)
}

func TestAForecastHasTheKeepBudgetsOfEnvironmentsAndWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	day := timestamppb.New(f.At.Add(24 * time.Hour))
	f.Fact(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{
		Freezes: []*environmentv1.Freeze{{From: timestamppb.New(f.At.Add(time.Hour)), Until: day}},
		Keep:    []*rolloutv1.Keep{{Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}}},
	}})
	in := up(hurried())
	in.GetRollout().On = recordstest.On(f.servers[1:]...)
	f.start(in)
	f.look()
	w := forecast.World{}
	for _, s := range f.servers[:2] {
		fields := map[string]string{"env": "prod"}
		w.Servers = append(w.Servers, forecast.Server{Candidate: rollout.Candidate{ServerID: s, Fields: fields}})
	}
	past := NewPast(f.api, nil, 1)
	past.takeBudgets(&w)
	past.takeOthers(&w, "none")
	past.takeWindows(&w)
	for after, frozen := range map[time.Duration]bool{0: false, 2 * time.Hour: true, 48 * time.Hour: false} {
		if _, why := w.Closed(f.servers[0], f.At.Add(after)); (why != "") != frozen {
			t.Errorf("after %s: closed for %q; want it frozen: %v", after, why, frozen)
		}
	}
	budgets := w.Budgets.Of(f.servers[0])
	if len(budgets) != 1 || w.Budgets.Outside[budgets[0].Group].Working != 1 {
		t.Fatalf("the budgets are %v; the third server is outside, and works: %v", budgets, w.Budgets.Outside)
	}
	if w.Busy != 2 || w.Beside != 0 || w.Servers[0].Busy || !w.Servers[1].Busy {
		t.Errorf("%d servers are busy, %d wait: %v", w.Busy, w.Beside, w.Servers)
	}
}

func TestABudgetThatNeedsEveryServerOfAGroupIsNamedInThePlanAndInTheList(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keeps     uint32
		ofRollout bool
		immovable bool
	}{
		"the rollout keeps all":          {2, true, true},
		"the environment keeps more":     {3, false, true},
		"the rollout keeps one":          {1, true, false},
		"the environment keeps one, too": {1, false, false},
	} {
		f := running(t, 2, "web")
		keeps := []*rolloutv1.Keep{{
			Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: c.keeps}},
		}}
		in := up(&rolloutv1.Strategy{Keep: keeps})
		if !c.ofRollout {
			in = up(nil)
			f.Fact(ledger.Environment, "prod", &environmentv1.Changed{
				Environment: &environmentv1.Environment{Keep: keeps},
			})
		}
		b := f.plan(in).GetBudgets()
		if len(b) != 1 || b[0].All != 2 || b[0].Working != 2 || b[0].Needed != c.keeps || b[0].Changes != 2 {
			t.Errorf("%s: the plan has %v", name, b)
		}
		id := f.start(in)
		f.look()
		f.look()
		list := recordstest.Call(f.World, f.api.List, &registryv1.ListRolloutsRequest{})
		if w := list.Waits[id]; w.GetImmovable() != c.immovable ||
			c.immovable && !strings.Contains(w.GetText(), "a smaller keep budget than") {
			t.Errorf("%s: it waits for %v", name, w)
		}
	}
}

func TestAWrongRequestAboutARolloutIsRefused(t *testing.T) {
	t.Parallel()
	f := running(t, 1, "web")
	id := f.start(up(&rolloutv1.Strategy{Emergency: true}))
	type plan = registryv1.PlanRolloutRequest
	far := &apiv1.Page{Limit: 5000}
	for name, c := range map[string]struct {
		q    *plan
		want string
	}{
		"no rollout":       {&plan{Intent: recordstest.Install("web", nil)}, code.Malformed},
		"it excludes":      {&plan{Intent: up(nil), Exclude: []string{"web"}}, code.Malformed},
		"it repairs":       {&plan{Intent: up(nil), Repair: true}, code.Malformed},
		"steps, and every": {&plan{Intent: up(nil), EveryAgent: true}, code.Malformed},
		"a page":           {&plan{Intent: up(nil), Page: far}, code.Invalid},
		"a cursor":         {&plan{Intent: up(nil), Page: &apiv1.Page{Cursor: "x"}}, code.Invalid},
	} {
		if have := recordstest.Code(f.World, f.api.plan, c.q); have != c.want {
			t.Errorf("a plan, %s: %q; want %s", name, have, c.want)
		}
	}
	nine := listOf(id)
	nine.Wave = proto.Uint32(9)
	for want, q := range map[string]*registryv1.ListRolloutTargetsRequest{
		code.NotFound: listOf("none"), code.BadStrategy: nine, code.Invalid: {RolloutId: id, Page: far},
	} {
		if have := recordstest.Code(f.World, f.api.Targets, q); have != want {
			t.Errorf("a list of servers: %q; want %s", have, want)
		}
	}
	if have := recordstest.Code(f.World, f.api.List, &registryv1.ListRolloutsRequest{Page: far}); have != code.Invalid {
		t.Errorf("a list: %q", have)
	}
	list := recordstest.Call(f.World, f.api.List, &registryv1.ListRolloutsRequest{Agent: "web"}).Rollouts
	if _, d := f.decide(up(nil)); len(list) != 1 || d.Refusal.GetCode() != code.RolloutOverlaps {
		t.Errorf("listed %v; a second rollout: %v", list, d.Refusal)
	}
}
