package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// counted returns a wave of servers that are pending, under way and succeeded.
func counted(pending, reached, succeeded uint32) *rolloutv1.Wave {
	return &rolloutv1.Wave{Servers: pending + reached + succeeded, Counts: map[uint32]uint32{
		uint32(rolloutv1.TargetState_TARGET_STATE_PENDING):   pending,
		uint32(rolloutv1.TargetState_TARGET_STATE_REACHED):   reached,
		uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): succeeded,
	}}
}

func TestTheProgressOfARolloutSaysWhatItWaitsForFirst(t *testing.T) {
	r := &registryv1.GetRolloutResponse{
		Rollout:  &rolloutv1.Rollout{Waves: []*rolloutv1.Wave{{Servers: 5}}},
		WaitsFor: "wave 1: a keep budget",
	}
	have := progress(r, "1s (50 %) to 2s (90 %)")
	if want := "; waits for a keep budget; time left: 1s (50 %) to 2s (90 %)"; !strings.HasSuffix(have, want) {
		t.Errorf("have %q, want %q at its end", have, want)
	}
}

func TestATerminalShowsABarForEachWaveAndWhatARolloutWaitsFor(t *testing.T) {
	passed := counted(0, 0, 3)
	passed.OpenedAt, passed.PassedAt = timestamppb.New(noon), timestamppb.New(noon)
	open := counted(4, 3, 5)
	open.OpenedAt = timestamppb.New(noon)
	r := &registryv1.GetRolloutResponse{
		Rollout:  &rolloutv1.Rollout{Waves: []*rolloutv1.Wave{passed, open, counted(25, 0, 0)}},
		WaitsFor: "the servers of wave 2",
	}
	want := []string{
		"wave 1/3 [########################] 3 of 3, passed",
		"wave 2/3 [##########..............] 5 of 12",
		"wave 3/3 [........................] 0 of 25, has not begun",
		"40 servers, 29 pending, 3 reached, 8 succeeded; 12 servers per minute",
		"waits for the servers of wave 2",
		"time left: soon",
	}
	if d := cmp.Diff(want, screen(r, "12 servers per minute", "soon")); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

func TestARolloutOfManyWavesShowsThoseAroundTheOneThatIsOpen(t *testing.T) {
	r := &rolloutv1.Rollout{}
	for n := range 20 {
		w := counted(1, 0, 0)
		if n < 10 {
			w.OpenedAt, w.PassedAt = timestamppb.New(noon), timestamppb.New(noon)
		}
		r.Waves = append(r.Waves, w)
	}
	var have []string
	for _, line := range screen(&registryv1.GetRolloutResponse{Rollout: r}, "", "") {
		if wave, _, is := strings.Cut(line, "/"); is {
			have = append(have, wave)
		}
	}
	want := "[wave 8 wave 9 wave 10 wave 11 wave 12 wave 13 wave 14 wave 15]"
	if fmt.Sprint(have) != want {
		t.Errorf("have %v, want %s", have, want)
	}
}

func TestThePaceOfARolloutIsThatOfItsLastMinutes(t *testing.T) {
	var p pace
	for _, c := range []struct {
		after time.Duration
		ended uint32
		want  string
	}{
		{0, 100, ""}, {time.Second, 105, ""}, {10 * time.Second, 101, "6.0 servers per minute"},
		{time.Minute, 130, "30 servers per minute"}, {10 * time.Minute, 130, "0 servers per minute"},
	} {
		p.add(noon.Add(c.after), c.ended)
		if have := p.text(); have != c.want {
			t.Errorf("after %s: %q, want %q", c.after, have, c.want)
		}
	}
}

func TestWhatIsLeftOfARolloutShrinksWithTimeAndEndsWithIt(t *testing.T) {
	last := &registryv1.GetRolloutResponse{Rollout: &rolloutv1.Rollout{
		State: rolloutv1.State_STATE_RUNNING, Waves: []*rolloutv1.Wave{{Servers: 5, OpenedAt: timestamppb.New(noon)}},
	}}
	answer := &registryv1.GetRolloutResponse{
		Left_50: durationpb.New(10 * time.Second), Left_90: durationpb.New(12 * time.Second),
	}
	for gone, want := range map[time.Duration]string{
		9 * time.Second: "1s (50 %) to 3s (90 %)", 11 * time.Second: "at most 1s (90 %)", time.Minute: "soon",
	} {
		if have := leftAfter(last, answer, gone, noon); have != want {
			t.Errorf("after %s: %q, want %q", gone, have, want)
		}
	}
	last.SlowCount = 2
	if have := leftAfter(last, answer, time.Minute, noon); have != "unknown: 2 changes longer under way than usual" {
		t.Errorf("where changes hang: %q", have)
	}
	r := &registryv1.GetRolloutResponse{Rollout: &rolloutv1.Rollout{
		State: rolloutv1.State_STATE_SUCCEEDED, Waves: []*rolloutv1.Wave{{Servers: 5}},
	}}
	if have := progress(r, "1s (50 %) to 3s (90 %)"); strings.Contains(have, "left") {
		t.Errorf("a rollout that ended has %q", have)
	}
}

func TestHowLongAPersonTakesIsNotForetold(t *testing.T) {
	answer := &registryv1.GetRolloutResponse{
		Left_50: durationpb.New(4 * time.Second), Left_90: durationpb.New(5 * time.Second),
	}
	waits := &rolloutv1.Rollout{
		State: rolloutv1.State_STATE_RUNNING, Waves: []*rolloutv1.Wave{{Servers: 5}},
		Strategy: &rolloutv1.Strategy{Stages: []*rolloutv1.Stage{{Approve: true}}},
	}
	for _, r := range []*rolloutv1.Rollout{waits, {State: rolloutv1.State_STATE_PAUSED}} {
		have := leftAfter(&registryv1.GetRolloutResponse{Rollout: r}, answer, 0, noon)
		if have != "unknown: it waits for a person" {
			t.Errorf("%v: %q", r.GetState(), have)
		}
	}
}
