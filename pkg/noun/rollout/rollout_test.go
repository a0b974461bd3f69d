package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func Example() {
	var r *rolloutv1.Rollout
	for _, body := range []proto.Message{
		&rolloutv1.Planned{Waves: []uint32{1, 9}, Part: 1, Parts: 1}, &rolloutv1.Opened{Wave: 1},
		&rolloutv1.Passed{Wave: 1}, &rolloutv1.Opened{Wave: 2}, &rolloutv1.Paused{Reason: "lunch"},
	} {
		r, _ = rollout.Apply(r, ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body, Actor: "ann"})
	}
	fmt.Println(r.State, rollout.Current(r), r.Reason.Message, r.SteeredBy)
	// Output: STATE_PAUSED 2 lunch ann
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := rollout.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestAWaveBeginsAfterTheOneBeforeItPassed(t *testing.T) {
	for name, c := range map[string]struct {
		before []proto.Message
		body   proto.Message
		fit    bool
	}{
		"the first":                {nil, &rolloutv1.Opened{Wave: 1}, true},
		"the second, too early":    {[]proto.Message{&rolloutv1.Opened{Wave: 1}}, &rolloutv1.Opened{Wave: 2}, false},
		"the first, twice":         {[]proto.Message{&rolloutv1.Opened{Wave: 1}}, &rolloutv1.Opened{Wave: 1}, false},
		"one that is not there":    {nil, &rolloutv1.Opened{Wave: 3}, false},
		"number zero":              {nil, &rolloutv1.Opened{}, false},
		"it passes unopened":       {nil, &rolloutv1.Passed{Wave: 1}, false},
		"it releases, unopened":    {nil, &rolloutv1.Released{Wave: 1}, false},
		"it releases what is owed": {nil, &rolloutv1.Released{}, true},
		"it releases while halted": {[]proto.Message{&rolloutv1.Halted{}}, &rolloutv1.Released{}, false},
		"it opens while paused":    {[]proto.Message{&rolloutv1.Paused{}}, &rolloutv1.Opened{Wave: 1}, false},
		"it opens while halted":    {[]proto.Message{&rolloutv1.Halted{}}, &rolloutv1.Opened{Wave: 1}, false},
		"it is resumed untimely":   {[]proto.Message{&rolloutv1.Aborted{}}, &rolloutv1.Resumed{}, false},
		"another part":             {nil, &rolloutv1.Planned{Part: 2, Parts: 2}, false},
		"it is rejected":           {nil, &rolloutv1.Rejected{Wave: 2}, true},
		"it is rejected, paused":   {[]proto.Message{&rolloutv1.Paused{}}, &rolloutv1.Rejected{Wave: 2}, true},
		"it is rejected, halted":   {[]proto.Message{&rolloutv1.Halted{}}, &rolloutv1.Rejected{Wave: 2}, false},
		"it is rejected, begun":    {[]proto.Message{&rolloutv1.Opened{Wave: 1}}, &rolloutv1.Rejected{Wave: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := apply(t, nil, &rolloutv1.Planned{Waves: []uint32{1, 1}, Part: 1, Parts: 1})
			for _, body := range c.before {
				r = apply(t, r, body)
			}
			before := proto.CloneOf(r)
			after, fit := rollout.Apply(r, ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: c.body})
			if fit != c.fit || (!fit && !proto.Equal(before, after)) {
				t.Errorf("fits: %v, want %v; it is %v", fit, c.fit, after)
			}
		})
	}
}

func TestItRunsOnceItsWholePlanIsRecorded(t *testing.T) {
	r := apply(t, nil, &rolloutv1.Planned{Waves: []uint32{3}, Part: 1, Parts: 2})
	if r.State != rolloutv1.State_STATE_PLANNED {
		t.Errorf("after the first part of two it is %s", r.State)
	}
	if r = apply(t, r, &rolloutv1.Planned{Part: 2, Parts: 2}); r.State != rolloutv1.State_STATE_RUNNING {
		t.Errorf("after both parts it is %s", r.State)
	}
}

func TestWhatIsBrokenWhenItIsResumedDoesNotCountAgain(t *testing.T) {
	r := apply(t, nil, &rolloutv1.Planned{Waves: []uint32{3}, Part: 1, Parts: 1})
	r = apply(t, r, &rolloutv1.Opened{Wave: 1})
	r.Waves[0].Counts = map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_BROKEN): 2}
	r = apply(t, apply(t, r, &rolloutv1.Halted{}), &rolloutv1.Resumed{})
	if r.Waves[0].Forgiven != 2 || r.Reason != nil || r.State != rolloutv1.State_STATE_RUNNING {
		t.Errorf("it is %v", r)
	}
}

func TestAStepForgivesNothing(t *testing.T) {
	r := apply(t, nil, &rolloutv1.Planned{Waves: []uint32{3}, Part: 1, Parts: 1})
	r = apply(t, r, &rolloutv1.Opened{Wave: 1})
	r.Waves[0].Counts = map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_BROKEN): 2}
	if r = apply(t, r, &rolloutv1.Resumed{UntilWave: 1}); r.Waves[0].Forgiven != 0 || r.UntilWave != 1 {
		t.Errorf("it is %v", r)
	}
}

func TestAnApprovalOfWhoAskedForItDoesNotFitWhereAnotherMustApprove(t *testing.T) {
	for name, c := range map[string]struct {
		other bool
		actor string
		fit   bool
	}{
		"who asked for it":                   {false, "ann", true},
		"another":                            {true, "bob", true},
		"who asked for it, and another must": {true, "ann", false},
	} {
		fact := func(actor string, body proto.Message) ledger.Fact {
			return ledger.Fact{Noun: ledger.Rollout, Key: "r", Actor: actor, Body: body}
		}
		strategy := &rolloutv1.Strategy{ApproveByOther: c.other}
		r, _ := rollout.Apply(nil, fact("ann", &rolloutv1.Planned{
			Waves: []uint32{1, 1}, Part: 1, Parts: 1, Strategy: strategy,
		}))
		r, fit := rollout.Apply(r, fact(c.actor, &rolloutv1.Approved{Wave: 2}))
		if fit != c.fit || (r.Waves[1].ApprovedBy == c.actor) != c.fit {
			t.Errorf("%s: fits %v, want %v; approved by %q", name, fit, c.fit, r.Waves[1].ApprovedBy)
		}
	}
}

func TestARejectionTakesTheApprovalBackAndHalts(t *testing.T) {
	r := apply(t, nil, &rolloutv1.Planned{Waves: []uint32{1, 1}, Part: 1, Parts: 1})
	r = apply(t, r, &rolloutv1.Approved{Wave: 2})
	r = apply(t, r, &rolloutv1.Rejected{Wave: 2, Reason: &apiv1.Refusal{Code: "WAVE_REJECTED"}})
	if r.State != rolloutv1.State_STATE_HALTED || r.Waves[1].ApprovedBy != "" || r.Reason.Code != "WAVE_REJECTED" {
		t.Errorf("it is %v", r)
	}
}

func TestItIsScheduledUntilItsFirstWaveBegan(t *testing.T) {
	r := apply(t, nil, &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, StartAt: timestamppb.New(time.Unix(100, 0)),
	})
	if !rollout.Scheduled(r) || rollout.Scheduled(apply(t, proto.CloneOf(r), &rolloutv1.Aborted{})) ||
		rollout.Scheduled(apply(t, r, &rolloutv1.Opened{Wave: 1})) {
		t.Errorf("it is %v", r)
	}
}

func TestItRemembersWhenItSucceededFirst(t *testing.T) {
	at := func(second int64, r *rolloutv1.Rollout, body proto.Message) *rolloutv1.Rollout {
		f := ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body, At: time.Unix(second, 0)}
		r, fit := rollout.Apply(r, f)
		if !fit {
			t.Fatalf("%T does not fit", body)
		}
		return r
	}
	r := at(1, nil, &rolloutv1.Planned{Waves: []uint32{1}, Part: 1, Parts: 1})
	r = at(2, r, &rolloutv1.Succeeded{})
	r = at(3, r, &rolloutv1.Extended{Targets: []*rolloutv1.Target{{ServerId: "s", Wave: 2}}})
	r = at(4, r, &rolloutv1.Succeeded{})
	if first, last := r.FirstSucceededAt.AsTime().Unix(), r.Since.AsTime().Unix(); first != 2 || last != 4 {
		t.Errorf("it succeeded first at %d and last at %d; want 2 and 4", first, last)
	}
}

func apply(t *testing.T, r *rolloutv1.Rollout, body proto.Message) *rolloutv1.Rollout {
	t.Helper()
	r, fit := rollout.Apply(r, ledger.Fact{Noun: ledger.Rollout, Key: "r", Body: body})
	if !fit {
		t.Fatalf("%T does not fit", body)
	}
	return r
}
