package rollout_test

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	noun "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

func Example() {
	strategy := &rolloutv1.Strategy{
		Stages: []*rolloutv1.Stage{{Size: &rolloutv1.Stage_Canaries{Canaries: 2}}}, Cover: []string{"platform"},
	}
	layout, _ := rollout.Waves([]rollout.Candidate{
		{ServerID: "a", Fields: map[string]string{"platform": "linux/amd64"}},
		{ServerID: "b", Fields: map[string]string{"platform": "linux/amd64"}},
		{ServerID: "c", Fields: map[string]string{"platform": "linux/arm64"}},
	}, strategy, "r")
	for _, p := range layout.Placements {
		fmt.Println(p.Wave, p.ServerID, p.Because)
	}

	at := time.Unix(0, 0)
	r, _ := noun.Apply(nil, ledger.Fact{Noun: ledger.Rollout, Key: "r", At: at, Body: &rolloutv1.Planned{
		Strategy: strategy, Waves: layout.Waves, Part: 1, Parts: 1,
	}})
	fmt.Println("open", rollout.Decide(rollout.Input{Rollout: r, Now: at}).Open)
	r, _ = noun.Apply(r, ledger.Fact{Noun: ledger.Rollout, Key: "r", At: at, Body: &rolloutv1.Opened{Wave: 1}})

	target := &rolloutv1.Target{ServerId: "c", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_PENDING}
	rollout.Place(r, target)
	d := rollout.Decide(rollout.Input{
		Rollout: r, Now: at, Pending: func(uint32) iter.Seq[string] { return slices.Values([]string{"c"}) },
	})
	fmt.Println("release", d.Release)
	rollout.Apply(r, target, rollout.Event{Kind: rollout.Released, At: at, IntentID: "derived"})
	rollout.Apply(r, target, rollout.Event{Kind: rollout.Ended, At: at, OK: false})
	fmt.Println(rollout.Decide(rollout.Input{Rollout: r, Now: at}).Halt.Message)
	// Output:
	// 1 a covers platform linux/amd64
	// 1 c covers platform linux/arm64
	// 2 b the rest
	// open 1
	// release [c]
	// newly broken: 1 of 3 servers; 0 is the limit
}
