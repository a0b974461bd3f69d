package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

func TestABadBuildHaltsARolloutAndItsServersGoBack(t *testing.T) {
	t.Parallel()
	f := running(t, 4, "web")
	id := f.start(up(nil, taking(1)))
	f.until("it halts, and its server goes back", everywhere, func() bool {
		return f.is(id, rolloutv1.State_STATE_HALTED)() && f.View.CountUnrestored(id) == 0
	})
	if r := f.rollout(id); r.Reason.GetCode() != code.TooManyBroken || r.Waves[1].OpenedAt != nil {
		t.Errorf("it is %v", r)
	}
	f.wants("1.0.0", 4)
	_, undo := f.decide(undoOf(id, nil))
	if want := "garrison rollout abort " + id; undo.Refusal.GetCode() != code.NothingLeft || undo.Refusal.Try != want {
		t.Errorf("its undo: %v; want %s and %q", undo.Refusal, code.NothingLeft, want)
	}
	f.control(id, abort)
	if _, undo = f.decide(undoOf(id, nil)); !strings.Contains(undo.Refusal.GetTry(), "show") {
		t.Errorf("the undo of what ended: %v", undo.Refusal)
	}
}

func TestAServerThatFallsSilentAfterItWasReachedIsRecordedAsBroken(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	id := f.start(up(&rolloutv1.Strategy{Silence: durationpb.New(time.Minute)}, taking(1)))
	f.look()
	for reached := range f.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_REACHED) {
		f.Fact(ledger.Server, reached.ServerId, &serverv1.Offline{})
	}
	f.At = f.At.Add(2 * time.Minute)
	f.look()
	have := f.Names(ledger.Rollout, id)
	if want := []string{"planned", "opened", "released", "silenced", "halted"}; !slices.Equal(have, want) {
		t.Errorf("recorded %v; want %v", have, want)
	}
}

// Web 1.2.0 upgrades from 1.1.0 only, and requires db 1.1.0.
func farther(f *fleet) {
	f.Image("web", "1.2.0", func(m *imagev1.Manifest) {
		m.UpgradesFrom = []string{"1.1.0"}
		m.Requires = []*imagev1.Requirement{{Agent: "db", Versions: ">=1.1.0"}}
	})
}

// both is a rollout of web and db.
func both(stages ...*rolloutv1.Stage) *intentv1.Intent {
	in := up(nil, stages...)
	in.GetRollout().Steps = append(in.GetRollout().Steps, &intentv1.Step{
		Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "db"}},
	})
	return in
}

func TestARolloutGoesByWayOfOtherVersionsAndAnUndoGoesBackThatWay(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web", "db")
	farther(f)
	id := f.start(both(taking(1)))
	f.succeeds(id)
	f.wants("1.2.0", 2)
	f.succeeds(f.start(undoOf(id, nil)))
	f.wants("1.0.0", 2)
	for _, s := range f.servers {
		at := []uint64{
			f.wantedAt(s, "db", "1.1.0"), f.wantedAt(s, "web", "1.2.0"), f.wantedAt(s, "web", "1.1.0"),
			f.wantedAt(s, "db", "1.0.0"), f.wantedAt(s, "web", "1.0.0"),
		}
		if at[0] == 0 || at[0] > at[1] || at[1] > at[2] || at[2] > at[3] || at[2] > at[4] {
			t.Errorf("db 1.1.0, web 1.2.0, and back web 1.1.0, db 1.0.0 and web 1.0.0 are at %v", at)
		}
	}
}

func TestAFailedStepBeginsNoLaterStep(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web", "db")
	farther(f)
	id := f.start(both(taking(1)))
	f.until("it halts, and its server goes back", everywhere, func() bool {
		return f.is(id, rolloutv1.State_STATE_HALTED)() && f.View.CountUnrestored(id) == 0
	})
	f.wants("1.0.0", 3)
	for _, s := range f.servers {
		if at := f.wantedAt(s, "web", "1.2.0"); at != 0 {
			t.Errorf("web 1.2.0 was wanted at %d", at)
		}
	}
}

func TestAHaltTakesBrokenServersBackBeforeTheVersionsThatTheyCameBy(t *testing.T) {
	t.Parallel()
	f := running(t, 2, "web")
	f.Image("web", "1.2.0", func(m *imagev1.Manifest) { m.UpgradesFrom = []string{"1.1.0"} })
	id := f.start(up(hurried()))
	fails := func(i *instancev1.Instance) bool { return i.Wanted.Version == "1.2.0" }
	for range 10 {
		f.look()
		f.Work(fails)
	}
	if r := f.rollout(id); r.State != rolloutv1.State_STATE_HALTED || f.View.CountUnrestored(id) != 0 {
		t.Fatalf("it is %v", r)
	}
	f.wants("1.0.0", 2)
	for _, s := range f.servers {
		if f.wantedAt(s, "web", "1.1.0") == 0 {
			t.Errorf("%s did not come by way of 1.1.0", s)
		}
	}
}

// canaried starts a rollout whose canary has passed and whose other waves wait for an approval. It returns the
// servers that the rollout has not reached.
func (f *fleet) canaried(in *intentv1.Intent) (id string, pending []string) {
	f.T.Helper()
	in.GetRollout().Strategy.Approve = true
	id = f.start(in)
	f.until("the canary passed", nil, f.passed(id, 1))
	for x := range f.View.TargetsOf(id, rolloutv1.TargetState_TARGET_STATE_PENDING) {
		pending = append(pending, x.ServerId)
	}
	return id, pending
}

func TestWhatWasAskedForAfterThePlanOfARolloutWins(t *testing.T) {
	t.Parallel()
	f := running(t, 6, "web")
	id, pending := f.canaried(up(nil, taking(1)))
	f.Image("web", "0.9.0")
	byHand, undone, lane := pending[0], pending[1], pending[2]
	f.Accept(topology.VerbUpgrade, recordstest.Upgrade("web", "0.9.0", recordstest.On(byHand)))
	mistake := f.Accept(topology.VerbUpgrade, recordstest.Upgrade("web", "0.9.0", recordstest.On(undone)))
	beside := up(&rolloutv1.Strategy{Emergency: true})
	beside.GetRollout().On = recordstest.On(lane)
	beside.GetRollout().Steps[0].GetUpgrade().Image = recordstest.Version("0.9.0")
	f.succeeds(f.start(beside))
	f.Accept(topology.VerbUndo, &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: mistake}}})
	f.control(id, approve)
	f.succeeds(id)
	for _, server := range []string{byHand, lane} {
		x := f.target(id, server)
		if v := f.Instance(server, "web").Wanted.Version; v != "0.9.0" || x.Reason.GetCode() != code.AskedLater ||
			x.State != rolloutv1.TargetState_TARGET_STATE_LEFT_OUT {
			t.Errorf("web %s, %s for %v; want 0.9.0, left out for %s", v, x.State, x.Reason, code.AskedLater)
		}
	}
	f.wants("1.1.0", 4) // also where what was asked for later was undone
}

// Web and db of a server are changed in one rollout: the server is left as it is, and does not count as broken.
func TestAServerOfWhichOneAgentWasAskedForLaterIsLeftOutAsAWhole(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web", "db")
	f.Image("web", "0.9.0")
	id, pending := f.canaried(both(taking(1)))
	f.Accept(topology.VerbUpgrade, recordstest.Upgrade("web", "0.9.0", recordstest.On(pending[0])))
	f.control(id, approve)
	f.succeeds(id)
	web, db := f.Instance(pending[0], "web").Wanted.Version, f.Instance(pending[0], "db").Wanted.Version
	if x := f.target(id, pending[0]); web != "0.9.0" || db != "1.0.0" ||
		x.State != rolloutv1.TargetState_TARGET_STATE_LEFT_OUT {
		t.Errorf("web %s, db %s, %s; want 0.9.0, 1.0.0, left out", web, db, x.State)
	}
}

func TestARolloutBringsAConfigurationInWavesAndTakesItBack(t *testing.T) {
	t.Parallel()
	f := running(t, 3, "web")
	in := up(nil, taking(1))
	in.GetRollout().Steps = []*intentv1.Step{{Change: &intentv1.Step_Configure{Configure: &intentv1.Configure{
		Agent: "web", Set: map[string]string{"level": "debug"},
	}}}}
	p := f.plan(in)
	if len(p.Values) != 1 || p.Values[0].From != nil || p.Values[0].GetTo() != "debug" || p.Values[0].Servers != 3 {
		t.Errorf("the plan shows the values %v; want level to become debug on 3 servers", p.Values)
	}
	id := f.start(p.Intent)
	f.succeeds(id)
	value := func() string { return f.Instance(f.servers[2], "web").GetConfiguration().GetMetadata()["level"] }
	if have := value(); have != "debug" {
		t.Errorf("the level is %q", have)
	}
	f.succeeds(f.start(undoOf(id, nil)))
	if have := value(); have != "" {
		t.Errorf("after the undo the level is %q", have)
	}
}

func TestTheServersOfARolloutAreListedWithWhereTheirChangeIs(t *testing.T) {
	t.Parallel()
	f := running(t, 1, "web")
	id := f.start(up(nil))
	f.look()
	shows := func(step, waits string) {
		t.Helper()
		resp, err := f.api.Targets(t.Context(), alice, listOf(id))
		if err != nil || resp.Targets[0].Step != step || resp.Targets[0].WaitsFor != waits {
			t.Errorf("listed as %v, %v; want it %s, waiting for %q", resp, err, step, waits)
		}
	}
	shows("queued", "")
	i := f.Instance(f.servers[0], "web")
	task := f.Task(i)
	shows("queued", "")
	f.Fact(ledger.Task, task, &taskv1.Assigned{})
	shows("assigned", "")
	f.Fact(ledger.Task, task, &taskv1.Started{})
	shows("running", "")
	f.Fact(ledger.Task, task, &taskv1.Deferred{Deferral: &taskv1.Deferral{Reason: "backup"}})
	shows("deferred", "backup")
	f.Fact(ledger.Task, task, &taskv1.Resumed{})
	shows("running", "")
	f.Fact(ledger.Task, task, &taskv1.Succeeded{})
	shows("observing", "")
	f.Fact(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation, Image: i.Wanted, Health: instancev1.Health_HEALTH_GOOD,
		ConfigurationDigest: i.Configuration.GetDigest(),
	})
	shows("", "")
}
