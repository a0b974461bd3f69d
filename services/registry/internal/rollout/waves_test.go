package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

func canaries(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Canaries{Canaries: n}}
}

func percent(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Percent{Percent: n}}
}

// fleet has n servers: 1 of 50 is arm64, 1 of 10 is a test server, and 4 racks have them in turn.
func fleet(n int) (all []rollout.Candidate) {
	for i := range n {
		fields := map[string]string{"platform": "amd64", "env": "prod", "label.rack": fmt.Sprint("r", i%4)}
		if i%50 == 0 {
			fields["platform"] = "arm64"
		}
		if i%10 == 3 {
			fields["env"] = "test"
		}
		all = append(all, rollout.Candidate{ServerID: fmt.Sprintf("s%03d", i), Fields: fields})
	}
	return all
}

func layout(t *testing.T, all []rollout.Candidate, s *rolloutv1.Strategy) rollout.Layout {
	t.Helper()
	l, err := rollout.Waves(all, s, "r")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCanariesCoverEachCombination(t *testing.T) {
	covers := []string{
		"covers platform amd64, env prod", "covers platform amd64, env test", "covers platform arm64, env prod",
	}
	filled := append(slices.Clone(covers), "one of 5 canaries", "one of 5 canaries")
	for n, want := range map[uint32][]string{1: covers[:1], 2: covers[:2], 3: covers, 5: filled} {
		s := stages(canaries(n))
		l := layout(t, fleet(200), s)
		var have []string
		for _, p := range l.Placements[:l.Waves[0]] {
			have = append(have, p.Because)
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%d canaries: (-want +have)\n%s", n, diff)
		}
		if left := rollout.Uncovered(fleet(200), s, l); len(left) != max(0, len(covers)-len(have)) {
			t.Errorf("%d canaries: %q are left", n, left)
		}
	}
}

func TestWavesHaveTheirSizes(t *testing.T) {
	all := fleet(200)
	all[0].Owed, all[1].Owed = true, true
	l := layout(t, all, &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{
		canaries(3), percent(1), {Size: &rolloutv1.Stage_Servers{Servers: 7}}, percent(50),
	}})
	if diff := cmp.Diff([]uint32{3, 1, 7, 99, 88}, l.Waves); diff != "" || l.Owed != 2 {
		t.Errorf("%s; %d are owed", diff, l.Owed)
	}
}

func TestAStageWithConditionsTakesTheServersThatMeetThem(t *testing.T) {
	all := fleet(200)
	for n := range all { // stage 1: env=test, stage 2: half of rack r0, stage 4: rack r1, of which some are in stage 1
		if all[n].Fields["env"] == "test" {
			all[n].Stages = append(all[n].Stages, 1)
		}
		switch all[n].Fields["label.rack"] {
		case "r0":
			all[n].Stages = append(all[n].Stages, 2)
		case "r1":
			all[n].Stages = append(all[n].Stages, 4)
		}
	}
	half := percent(50)
	half.Of = group()
	l := layout(t, all, stages(&rolloutv1.Stage{Of: group()}, half, percent(10), &rolloutv1.Stage{Of: group()}))
	wave := map[string]uint32{}
	for _, p := range l.Placements {
		wave[p.ServerID] = p.Wave
	}
	for n, c := range all {
		rack, test := c.Fields["label.rack"], c.Fields["env"] == "test"
		switch have := wave[c.ServerID]; {
		case test != (have == 1), have == 2 && rack != "r0", rack == "r1" && have == 5:
			t.Errorf("server %d, %v, is in wave %d", n, c.Fields, have)
		}
	}
	if l.Waves[0] != 20 || l.Waves[1] != 25 || l.Waves[2] != 20 || len(l.Stages) != 4 || len(l.Empty) > 0 {
		t.Errorf("waves %v of stages %v; empty %v", l.Waves, l.Stages, l.Empty)
	}
	if first := l.Placements[0].Because; first != "ring=0" {
		t.Errorf("a server of the first wave is there because of %q", first)
	}
}

func TestAStageWithConditionsThatTakesNoServerIsNamed(t *testing.T) {
	all := fleet(10)
	all[0].Stages, all[1].Stages, all[2].Stages = []uint32{1, 2}, []uint32{1, 2, 3}, []uint32{3}
	all[1].Owed, all[2].Owed = true, true
	one := &rolloutv1.Stage{Of: group()}
	soaked := percent(50)
	l := layout(t, all, stages(one, one, one, one, soaked))
	want := []rollout.Empty{
		{Stage: 2, Meet: 2, Owed: 1, Earlier: 1}, {Stage: 3, Meet: 2, Owed: 2}, {Stage: 4},
	}
	if diff := cmp.Diff(want, l.Empty); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint32{1, 4, 3}, l.Waves); diff != "" || len(l.Stages) != 2 || l.Stages[1] != soaked {
		t.Errorf("%s; stages %v", diff, l.Stages)
	}
}

func TestEachServerIsInTheFirstStageThatTakesAllThatMeetIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := fleet(20)
		for n := range all {
			all[n].Stages = someStages(rt)
		}
		s := stages()
		for range rapid.IntRange(0, 5).Draw(rt, "stages") {
			stage := rapid.SampledFrom([]*rolloutv1.Stage{
				{Of: group()}, {Of: group()}, percent(10), {Size: percent(50).Size, Of: group()},
			}).Draw(rt, "stage")
			s.Stages = append(s.Stages, proto.CloneOf(stage))
		}
		l := layout(t, all, s)
		stageOf := map[string]int{} // its position among all stages, or behind them
		for _, p := range l.Placements {
			stageOf[p.ServerID] = len(s.Stages)
			if int(p.Wave) <= len(l.Stages) {
				stageOf[p.ServerID] = slices.Index(s.Stages, l.Stages[p.Wave-1])
			}
		}
		for _, c := range all {
			have, placed := stageOf[c.ServerID]
			meets := func(n int) bool { return slices.Contains(c.Stages, uint32(n)+1) }
			if !placed || have < len(s.Stages) && s.Stages[have].Of != nil && !meets(have) {
				rt.Fatalf("%s, which meets %v, is in stage %d of %v", c.ServerID, c.Stages, have+1, s)
			}
			for n, stage := range s.Stages[:have] {
				if stage.Size == nil && meets(n) {
					rt.Fatalf("%s meets stage %d and is in stage %d", c.ServerID, n+1, have+1)
				}
			}
		}
	})
}

func TestASpreadTakesServersOfEachValueInTurn(t *testing.T) {
	all := fleet(40)
	rack := map[string]string{}
	for _, c := range all {
		rack[c.ServerID] = c.Fields["label.rack"]
	}
	l := layout(t, all, &rolloutv1.Strategy{Spread: "label.rack", Stages: []*rolloutv1.Stage{percent(10)}})
	seen := map[string]bool{}
	for _, p := range l.Placements[:4] {
		seen[rack[p.ServerID]] = true
	}
	if len(seen) != 4 {
		t.Errorf("the first wave is %v", l.Placements[:4])
	}
}

func TestTheOrderOfCandidatesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{canaries(3), percent(30)}, Spread: "label.rack"}
		want := layout(t, fleet(20), s)
		have := layout(t, rapid.Permutation(fleet(20)).Draw(rt, "fleet"), s)
		if diff := cmp.Diff(want, have, protocmp.Transform()); diff != "" {
			rt.Error(diff)
		}
	})
}

func TestABadStrategyIsRefused(t *testing.T) {
	keep := func(field string, l *rolloutv1.Limit) *rolloutv1.Strategy {
		return &rolloutv1.Strategy{Keep: []*rolloutv1.Keep{{Field: field, Working: l}}}
	}
	share := func(n uint32) *rolloutv1.Limit { return &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: n}} }
	for name, c := range map[string]struct {
		strategy *rolloutv1.Strategy
		code     string
	}{
		"more canaries than servers":  {stages(canaries(11)), code.BadStrategy},
		"more canaries than are left": {stages(percent(100), canaries(1)), code.BadStrategy},
		"no canaries":                 {stages(canaries(0)), code.BadStrategy},
		"no size":                     {stages(&rolloutv1.Stage{}), code.BadStrategy},
		"no conditions":               {stages(&rolloutv1.Stage{Of: &rolloutv1.Group{}}), code.BadStrategy},
		"17 conditions": {stages(&rolloutv1.Stage{Of: &rolloutv1.Group{
			Where: slices.Repeat(group().Where, 17),
		}}), code.BadStrategy},
		"no servers":            {stages(&rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{}}), code.BadStrategy},
		"a percentage of 0":     {stages(percent(0)), code.BadStrategy},
		"a percentage of 101":   {stages(percent(101)), code.BadStrategy},
		"too many stages":       {manyStages(101), code.BadStrategy},
		"may break 101 %":       {&rolloutv1.Strategy{MaxBroken: share(101)}, code.BadStrategy},
		"success of 101 %":      {&rolloutv1.Strategy{SuccessPercent: 101}, code.BadStrategy},
		"done at 101 %":         {&rolloutv1.Strategy{DonePercent: 101}, code.BadStrategy},
		"alarms in all waves":   {&rolloutv1.Strategy{ComparePermille: 1000}, code.BadStrategy},
		"keeps without a field": {keep("", broke(1)), code.BadStrategy},
		"keeps without a limit": {keep("env", nil), code.BadStrategy},
		"keeps 101 %":           {keep("env", share(101)), code.BadStrategy},
		"a negative soak":       {&rolloutv1.Strategy{Soak: durationpb.New(-1)}, code.BadStrategy},
		"a soak of a year":      {&rolloutv1.Strategy{Soak: durationpb.New(8760 * 3600e9)}, code.BadStrategy},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rollout.Waves(fleet(10), c.strategy, "r")
			if r := fault.RefusalOf(err); r.GetCode() != c.code {
				t.Errorf("refused with %v, want %s", r, c.code)
			}
		})
	}
}

func stages(s ...*rolloutv1.Stage) *rolloutv1.Strategy { return &rolloutv1.Strategy{Stages: s} }

func manyStages(n int) *rolloutv1.Strategy {
	return stages(slices.Repeat([]*rolloutv1.Stage{percent(1)}, n)...)
}
