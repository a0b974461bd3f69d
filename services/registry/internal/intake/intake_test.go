package intake

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

var start = time.Unix(1_700_000_000, 0)

func alive() *serverv1.Server {
	return &serverv1.Server{
		Id: "s", Name: "web-1", Life: serverv1.Life_LIFE_ALIVE, Standing: serverv1.Standing_STANDING_ENROLLED,
	}
}

// caused returns a fact that a report of the server led to.
func caused(body proto.Message, at time.Time) ledger.Fact {
	return ledger.Fact{Key: "s", Body: body, At: at, Cause: ledger.CausedByReport("s", 1)}
}

func TestABootAndASysinfoChangeOncePerInterval(t *testing.T) {
	s := alive()
	if !BootMayChange(s, start, time.Second) || !SysinfoMayChange(s, start) {
		t.Error("the first change has to wait")
	}
	s.BootId = "boot"
	Server(s, "", caused(&serverv1.SysinfoSeen{}, start))
	for _, c := range []struct {
		after         time.Duration
		boot, sysinfo bool
	}{
		{0, false, false}, {1999 * time.Millisecond, false, false}, {2 * time.Second, true, false},
		{SysinfoEvery - 1, true, false}, {SysinfoEvery, true, true}, {-time.Hour, true, true},
	} {
		now := start.Add(c.after)
		boot, sysinfo := BootMayChange(s, now, time.Second), SysinfoMayChange(s, now)
		if boot != c.boot || sysinfo != c.sysinfo {
			t.Errorf("%v later: boot %v, sysinfo %v; want %v, %v", c.after, boot, sysinfo, c.boot, c.sysinfo)
		}
	}
}

func TestARefreshIsAnsweredOnce(t *testing.T) {
	s := alive()
	refresh := &taskv1.Task{Id: "t1", Verb: taskv1.Verb_VERB_REFRESH, State: taskv1.State_STATE_ASSIGNED}
	if Answers(s, "t1") || Answers(s, "") {
		t.Error("it answers what was not asked")
	}
	Refresh(s, &taskv1.Task{Id: "t0", Verb: taskv1.Verb_VERB_UPGRADE, State: taskv1.State_STATE_ASSIGNED})
	Refresh(s, refresh)
	if Answers(s, "t0") || !Answers(s, "t1") {
		t.Error("it does not answer the refresh alone")
	}
	Server(s, "", caused(&serverv1.SysinfoSeen{RequestId: "t1"}, start))
	if s.Intake.Facts != 0 {
		t.Error("the answer was charged to the server")
	}
	if Answers(s, "t1") {
		t.Error("it answers again")
	}
	refresh.Id = "t2"
	Refresh(s, refresh)
	if !Answers(s, "t2") {
		t.Error("it does not answer the next one")
	}
}

// play records as many observations as may be, one try each interval, and returns when.
func play(i *instancev1.Instance, s *serverv1.Server, every, during time.Duration) (recorded int) {
	for d := time.Duration(0); d < during; d += every {
		now := start.Add(d)
		if ObservedMayChange(i, &instancev1.Observed{}, now) {
			Observed(i, s, i.ObservedGeneration, caused(&instancev1.Observed{}, now))
			recorded++
		}
	}
	return recorded
}

func TestWhatIsObservedChangesInABurstAndThenNowAndThen(t *testing.T) {
	for during, want := range map[time.Duration]int{
		time.Second: budget.Burst, 10 * budget.Every: budget.Burst + 9, 100 * budget.Every: budget.Burst + 99,
	} {
		if n := play(&instancev1.Instance{}, alive(), 100*time.Millisecond, during); n != want {
			t.Errorf("%d changes in %v; want %d", n, during, want)
		}
	}
	if n := play(&instancev1.Instance{}, alive(), budget.Every, 10*budget.Every); n != 10 {
		t.Errorf("%d of 10 changes that are far apart", n)
	}
}

func TestTheOutcomeOfAnIntentNeverWaitsAndCostsNothing(t *testing.T) {
	i, s := &instancev1.Instance{Generation: 2, ObservedGeneration: 1}, alive()
	play(i, s, time.Millisecond, time.Second)
	before, next := s.Intake.Bytes, &instancev1.Observed{Generation: 2}
	if !ObservedMayChange(i, next, start) {
		t.Fatal("an observation of the next generation waits")
	}
	i.ObservedGeneration = 2
	Observed(i, s, 1, caused(next, start))
	if s.Intake.Bytes != before {
		t.Error("it was charged to the server")
	}
	if !ObservedMayChange(i, &instancev1.Observed{Generation: 2}, start) {
		t.Error("the burst before it still counts")
	}
}

func TestAClockThatWasSetBackDelaysNothing(t *testing.T) {
	i := &instancev1.Instance{}
	play(i, alive(), time.Millisecond, time.Second)
	long := start.Add(-time.Hour)
	if !ObservedMayChange(i, &instancev1.Observed{}, long) {
		t.Fatal("it waits an hour")
	}
	Observed(i, nil, 0, caused(&instancev1.Observed{}, long))
	if want := long.Add(budget.Every); !i.ObservedUntil.AsTime().Equal(want) {
		t.Errorf("until %v, want %v", i.ObservedUntil.AsTime(), want)
	}
}

func TestAServerOverItsBudgetIsQuarantinedAndAReleaseIsTheWayBack(t *testing.T) {
	const most = 10_000
	s, now := alive(), start
	for n := 0; !Over(s, most, now); n++ {
		if n > 20 {
			t.Fatal("twenty facts of 600 bytes and more are within a budget of 10,000")
		}
		if Quarantine(s, most, now) != nil {
			t.Fatal("quarantined within its budget")
		}
		now = now.Add(time.Second)
		Server(s, "", caused(&serverv1.Online{}, now))
	}
	q := Quarantine(s, most, now)
	if q.GetCode() != code.LedgerBudget || !strings.Contains(q.GetReason(), "garrison server release web-1") {
		t.Errorf("quarantined by %v", q)
	}
	if tomorrow := now.Add(24 * time.Hour); Over(s, most, tomorrow) {
		t.Error("it is over the budget of the next day")
	}
	Server(s, "", ledger.Fact{Body: &serverv1.Released{}, At: now, Cause: ledger.CausedByRequest("r")})
	if Over(s, most, now) {
		t.Error("after a release it is over its budget at once")
	}
}

func TestOnlyWhatAServerCausedIsCharged(t *testing.T) {
	s := alive()
	for _, cause := range []string{ledger.CausedByClock, ledger.CausedByRequest("s"), ledger.CausedByIntent("s"), ""} {
		Server(s, "", ledger.Fact{Body: &serverv1.Changed{}, At: start, Cause: cause})
	}
	if s.Intake.GetBytes() != 0 {
		t.Errorf("charged %v", s.Intake)
	}
	Server(s, "", ledger.Fact{Body: &serverv1.Online{BootId: "b"}, At: start, Cause: ledger.CausedByBeat("s")})
	if s.Intake.GetFacts() != 1 {
		t.Errorf("charged %v", s.Intake)
	}
	s.Life = serverv1.Life_LIFE_DEAD
	if Server(s, "", caused(&serverv1.Uninstalled{}, start)); s.Intake != nil {
		t.Errorf("a dead server keeps %v", s.Intake)
	}
}
