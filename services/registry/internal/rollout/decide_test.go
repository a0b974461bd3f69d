package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// story is a rollout of the servers a, b | c, d and the owed one o.
type story struct {
	*testing.T
	rollout.Book
	now time.Time
}

func tell(t *testing.T, s *rolloutv1.Strategy) *story {
	y := &story{T: t, now: time.Unix(1000, 0)}
	p := &rolloutv1.Planned{Strategy: rollout.Filled(s), Waves: []uint32{2, 2}, Owed: 1, Part: 1, Parts: 1}
	for _, id := range []string{"a1", "b1", "c2", "d2", "o0"} {
		p.Targets = append(p.Targets, &rolloutv1.Target{ServerId: id, Wave: uint32(id[1] - '0')})
	}
	y.Apply("o0", rollout.Event{Kind: rollout.Away, At: y.now})
	y.fact(p)
	return y
}

func (y *story) fact(body proto.Message) {
	y.Helper()
	if !y.Fold(ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body, At: y.now, Actor: "ann"}) {
		y.Fatalf("%T does not fit", body)
	}
}

// does does what is decided until nothing is, and returns it in words.
func (y *story) does() (done []string) {
	for range 20 {
		switch d := rollout.Decide(y.Input(y.now)); {
		case d.Open > 0:
			done = append(done, "open")
			y.fact(&rolloutv1.Opened{Wave: d.Open})
		case d.Pass > 0:
			done = append(done, "pass")
			y.fact(&rolloutv1.Passed{Wave: d.Pass})
		case len(d.Release) > 0:
			done = append(done, "release "+strings.Join(d.Release, " "))
			y.fact(&rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release})
		case len(d.Silence) > 0:
			done = append(done, "silence "+strings.Join(d.Silence, " "))
			y.fact(&rolloutv1.Silenced{ServerIds: d.Silence})
		case d.Halt != nil:
			done = append(done, d.Halt.Code)
			y.fact(&rolloutv1.Halted{Wave: d.Wave, Reason: d.Halt})
		case d.Succeed:
			done = append(done, "succeed")
			y.fact(&rolloutv1.Succeeded{Owed: d.Owed})
		default:
			return append(done, d.Waits)
		}
	}
	y.Fatal("it decides without end")
	return nil
}

func (y *story) ends(ok bool, servers ...string) {
	for _, id := range servers {
		y.Apply(id, rollout.Event{Kind: rollout.Ended, At: y.now, OK: ok})
	}
}

func (y *story) expect(want ...string) {
	y.Helper()
	if diff := cmp.Diff(want, y.does()); diff != "" {
		y.Errorf("(-want +have)\n%s", diff)
	}
}

const (
	underWay    = "the servers of wave 1: 0 of 2 succeeded, 2 under way"
	oneUnderWay = "the servers of wave 1: 0 of 2 succeeded, 1 under way, 1 pending"
)

func TestWavesFollowEachOtherAndTheOwedServerIsServedLast(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(2), Soak: durationpb.New(time.Minute)})
	y.expect("open", "release a1 b1", underWay)
	y.ends(true, "a1", "b1")
	y.expect("the servers of wave 1 to stay healthy until 1970-01-01T00:17:40Z")
	y.now = y.now.Add(time.Minute)
	y.expect("pass", "open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
	y.ends(true, "c2", "d2")
	y.now = y.now.Add(time.Minute)
	y.ends(true, "c2", "d2")
	y.expect("pass", "succeed", "")
	y.Apply("o0", rollout.Event{Kind: rollout.Back, At: y.now})
	y.expect("release o0", "")
}

// wide is a rollout of one wave.
func wide(t *testing.T, servers int, s *rolloutv1.Strategy) *story {
	y := &story{T: t, now: time.Unix(1000, 0)}
	p := &rolloutv1.Planned{Strategy: rollout.Filled(s), Waves: []uint32{uint32(servers)}, Part: 1, Parts: 1}
	for n := range servers {
		p.Targets = append(p.Targets, &rolloutv1.Target{ServerId: fmt.Sprintf("s%02d", n), Wave: 1})
	}
	y.fact(p)
	return y
}

// rounds returns how many servers are under way in each round, in which all of them end.
func (y *story) rounds(ok bool) (sizes []int) {
	for range 100 {
		y.does()
		var under []string
		for t := range y.Targets() {
			if t.State == reached {
				under = append(under, t.ServerId)
			}
		}
		if len(under) == 0 {
			return sizes
		}
		sizes = append(sizes, len(under))
		y.ends(ok, under...)
	}
	y.Fatal("it has no end")
	return nil
}

func TestAWaveBeginsWithFewAndDoublesWhileTheyProveGood(t *testing.T) {
	for name, c := range map[string]struct {
		strategy *rolloutv1.Strategy
		want     []int
	}{
		"without a limit": {&rolloutv1.Strategy{MaxBroken: broke(40)}, []int{2, 4, 8, 16, 10}},
		"up to its concurrency": {
			&rolloutv1.Strategy{MaxBroken: broke(40), Concurrency: 5}, []int{2, 4, 5, 5, 5, 5, 5, 5, 4},
		},
		"up to what it may break":    {&rolloutv1.Strategy{MaxBroken: broke(16)}, []int{2, 4, 8, 16, 10}},
		"in an emergency, all of it": {&rolloutv1.Strategy{MaxBroken: broke(0), Emergency: true}, []int{40}},
	} {
		if have := wide(t, 40, c.strategy).rounds(true); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v are under way; want %v", name, have, c.want)
		}
	}
	back := wide(t, 40, &rolloutv1.Strategy{MaxBroken: broke(0)})
	back.Rollout.Undoes = "r0"
	if have := back.rounds(true); !slices.Equal(have, []int{40}) {
		t.Errorf("on the way back %v are under way; want all at once", have)
	}
}

// A wave of 40 had five broken when it halted at two.
func TestAHaltFindsAtMostOneMoreBrokenThanTheLimit(t *testing.T) {
	for most := range uint32(6) {
		y := wide(t, 40, &rolloutv1.Strategy{MaxBroken: broke(most)})
		y.does()
		for n := range 3 { // some succeed before the version shows that it is bad
			y.ends(true, fmt.Sprintf("s%02d", n))
			y.does()
		}
		y.rounds(false)
		n := 0
		for t := range y.Targets() {
			if t.State == broken {
				n++
			}
		}
		if n != int(most)+1 || y.Rollout.State != rolloutv1.State_STATE_HALTED {
			t.Errorf("at a limit of %d it is %s with %d broken", most, y.Rollout.State, n)
		}
	}
}

func TestAWaveInWhichNoServerSucceededNeedsAnApproval(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(2)})
	y.expect("open", "release a1 b1", underWay)
	for _, id := range []string{"a1", "b1"} {
		y.Apply(id, rollout.Event{Kind: rollout.LeftOut, At: y.now})
	}
	y.expect("pass", "an approval of wave 2: no server of the wave before succeeded")
	y.fact(&rolloutv1.Approved{Wave: 2})
	y.expect("open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
}

func TestAServerThatReturnsAfterAllSoaksLikeTheOthers(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(2), Soak: durationpb.New(time.Minute)})
	y.expect("open", "release a1 b1", underWay)
	y.ends(true, "a1")
	y.Apply("b1", rollout.Event{Kind: rollout.Silent, At: y.now})
	y.expect("the servers of wave 1 to stay healthy until 1970-01-01T00:17:40Z")
	y.now = y.now.Add(50 * time.Second)
	y.ends(true, "b1")
	y.expect("the servers of wave 1 to stay healthy until 1970-01-01T00:18:30Z")
}

func TestARolloutHaltsAsSoonAsItMust(t *testing.T) {
	for name, c := range map[string]struct {
		strategy *rolloutv1.Strategy
		want     []string
	}{
		"the limit is broken": {
			&rolloutv1.Strategy{MaxBroken: broke(0), Emergency: true}, []string{code.TooManyBroken, halted},
		},
		"too few can succeed": {
			&rolloutv1.Strategy{MaxBroken: broke(9), SuccessPercent: 60}, []string{code.TooFewSucceed, halted},
		},
		"enough can succeed": {
			&rolloutv1.Strategy{MaxBroken: broke(9), SuccessPercent: 50},
			[]string{"the servers of wave 1: 0 of 2 succeeded, 1 under way"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := tell(t, c.strategy)
			y.expect("open", "release a1 b1", underWay)
			y.ends(false, "a1")
			y.expect(c.want...)
		})
	}
}

// The budget is of all servers, so a canary wave can be smaller than it.
func TestAWaveThatBreaksAllItsServersHaltsBelowTheBudget(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(9)})
	y.expect("open", "release a1 b1", underWay)
	y.ends(false, "a1")
	y.expect("the servers of wave 1: 0 of 2 succeeded, 1 under way")
	y.ends(false, "b1")
	y.expect(code.TooFewSucceed, untouched)
	y.fact(&rolloutv1.Resumed{})
	y.expect("pass", "an approval of wave 2: no server of the wave before succeeded")
	y.fact(&rolloutv1.Approved{Wave: 2})
	y.expect("open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
	y.ends(false, "c2", "d2")
	y.expect("pass", "succeed", "") // no wave follows, and the budget holds
	hurried := tell(t, &rolloutv1.Strategy{MaxBroken: broke(9), Emergency: true})
	hurried.expect("open", "release a1 b1", underWay)
	hurried.ends(false, "a1", "b1")
	hurried.expect("pass", "open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
}

const (
	halted    = "a person to resume, abort or undo it: it halted"
	untouched = "a person to resume or abort it: it halted" // nothing is left to undo
)

func broke(n uint32) *rolloutv1.Limit {
	return &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: n}}
}

func TestAWavePassesOnceItsVerdictIsCertain(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(9), SuccessPercent: 50})
	y.expect("open", "release a1 b1", underWay)
	y.ends(true, "a1")
	y.expect("pass", "open", "release c2", "the servers of wave 2: 0 of 2 succeeded, 1 under way, 1 pending")
	y.ends(true, "c2")
	y.expect("pass", "release d2", "2 servers under way")
	y.ends(false, "b1", "d2")
	y.expect("succeed", "")
}

func TestAServerThatIsSilentTooLongIsBroken(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(0)})
	y.expect("open", "release a1", oneUnderWay)
	y.Apply("a1", rollout.Event{Kind: rollout.Away, At: y.now})
	y.now = y.now.Add(2*time.Minute - 1)
	y.expect(oneUnderWay)
	y.now = y.now.Add(1)
	y.expect("silence a1", code.TooManyBroken, untouched)
}

func TestWhatAPersonResumedDoesNotHaltAgain(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{MaxBroken: broke(0)})
	y.expect("open", "release a1", oneUnderWay)
	y.ends(false, "a1")
	y.expect(code.TooManyBroken, untouched)
	y.fact(&rolloutv1.Resumed{UntilWave: 1})
	y.expect("release b1", "the servers of wave 1: 0 of 2 succeeded, 1 under way")
	y.ends(true, "b1")
	y.expect("pass", "a person to resume it: it was to stop after wave 1")
	y.fact(&rolloutv1.Resumed{})
	y.expect("open", "release c2", "the servers of wave 2: 0 of 2 succeeded, 1 under way, 1 pending")
	y.ends(false, "c2")
	y.expect(code.TooManyBroken, halted)
}

func TestAnApprovalIsAwaitedButNotInAnEmergency(t *testing.T) {
	for _, emergency := range []bool{false, true} {
		y := tell(t, &rolloutv1.Strategy{
			MaxBroken: broke(2), Approve: true, Emergency: emergency, Soak: durationpb.New(time.Hour),
		})
		y.expect("open", "release a1 b1", underWay)
		y.ends(true, "a1", "b1")
		if !emergency {
			y.now = y.now.Add(time.Hour)
			y.expect("pass", "an approval of wave 2")
			y.fact(&rolloutv1.Approved{Wave: 2})
			y.expect("open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
			continue
		}
		y.expect("pass", "open", "release c2 d2",
			"the servers of wave 2: 0 of 2 succeeded, 2 under way")
	}
}

func TestARolloutEndsOnceEnoughSucceeded(t *testing.T) {
	y := tell(t, &rolloutv1.Strategy{
		MaxBroken: broke(9), Concurrency: 1, DonePercent: 75, DoneAfter: durationpb.New(time.Hour),
	})
	for _, id := range []string{"a1", "b1", "c2"} {
		y.does()
		y.ends(true, id)
	}
	if done := y.does(); !slices.Equal(done[:1], []string{"release d2"}) {
		t.Fatalf("it does %v", done)
	}
	y.now = y.now.Add(time.Hour)
	y.expect("pass", "succeed", "")
	if r := y.Rollout; r.State != rolloutv1.State_STATE_SUCCEEDED || y.Target("d2").State != reached {
		t.Errorf("%v", r)
	}
}
