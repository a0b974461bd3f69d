package rollout

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

var primeAt = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// waitsFor is a rollout of so many servers whose environment is closed until tomorrow, and fetches ahead.
func waitsFor(servers int) Input {
	var all []string
	for n := range servers {
		all = append(all, fmt.Sprintf("s%03d", n))
	}
	wave := func() *rolloutv1.Wave {
		return &rolloutv1.Wave{Servers: uint32(servers), Counts: map[uint32]uint32{uint32(pending): uint32(servers)}}
	}
	r := &rolloutv1.Rollout{
		State: rolloutv1.State_STATE_RUNNING, Strategy: &rolloutv1.Strategy{},
		Waves: []*rolloutv1.Wave{wave(), wave()}, Owed: &rolloutv1.Wave{},
	}
	r.Waves[0].OpenedAt = timestamppb.New(primeAt)
	return Input{
		Rollout: r, Now: primeAt,
		Pending:  func(uint32) iter.Seq[string] { return slices.Values(all) },
		Unprimed: func() iter.Seq[string] { return slices.Values(all) },
		Closed:   func(string) (time.Time, string) { return primeAt.Add(24 * time.Hour), "closed" },
		Ahead:    func(string) (bool, time.Time) { return true, time.Time{} },
	}
}

func TestServersFetchAheadOnlyWhileTheyCannotBeChangedAndMayFetch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		want   int
	}{
		"closed, and it may fetch": {func(*Input) {}, 3},
		"open": {func(in *Input) {
			in.Closed = func(string) (time.Time, string) { return time.Time{}, "" }
		}, 0},
		"it may not fetch": {func(in *Input) {
			in.Ahead = func(string) (bool, time.Time) { return false, primeAt.Add(time.Hour) }
		}, 0},
		"paused": {func(in *Input) { in.Rollout.State = rolloutv1.State_STATE_PAUSED }, 0},
		"halted": {func(in *Input) { in.Rollout.State = rolloutv1.State_STATE_HALTED }, 0},
		"the site is paused": {func(in *Input) {
			in.Paused, in.PausedUntil = "a move", primeAt.Add(time.Hour)
		}, 0},
		"override":  {func(in *Input) { in.Rollout.Strategy.Override = true }, 0},
		"emergency": {func(in *Input) { in.Rollout.Strategy.Emergency = true }, 0},
		"concurrency": {func(in *Input) {
			in.Rollout.Strategy.Concurrency = 2
		}, 2},
		"others fetch already": {func(in *Input) { in.Rollout.Primed, in.Rollout.FetchedAhead = 100, 1 }, 1},
		"others ended":         {func(in *Input) { in.Rollout.Primed, in.Rollout.NotFetchedAhead = 200, 200 }, 3},
	} {
		in := waitsFor(3)
		c.change(&in)
		if d := Decide(in); len(d.Prime) != c.want {
			t.Errorf("%s: %v; want %d servers", name, d, c.want)
		}
	}
	if d := Decide(waitsFor(500)); len(d.Prime) != atOnceAhead || !same(&rolloutv1.Primed{ServerIds: d.Prime}, d) {
		t.Errorf("of 500 servers %d fetch ahead at once", len(d.Prime))
	}
}

func TestARolloutWakesWhenItsServersMayFetchAhead(t *testing.T) {
	in := waitsFor(3)
	soon := primeAt.Add(time.Hour)
	in.Ahead = func(string) (bool, time.Time) { return false, soon }
	if d := Decide(in); !d.Next.Equal(soon) || d.Waits == "" {
		t.Errorf("it waits for %q until %s", d.Waits, d.Next)
	}
}

func TestAServerThatFetchedAllImagesAheadCountsOnce(t *testing.T) {
	r := &rolloutv1.Rollout{}
	change := func(id string) *rolloutv1.Change {
		return &rolloutv1.Change{To: &imagev1.Ref{Id: id, Digest: []byte(id)}}
	}
	target := func() *rolloutv1.Target {
		return &rolloutv1.Target{
			State: pending, Changes: []*rolloutv1.Change{change("a"), change("b"), change("a"), {}},
		}
	}
	whole, part, left := target(), target(), target()
	if got := len(Brings(whole)); got != 2 {
		t.Errorf("it brings %d images, want 2", got)
	}
	for _, x := range []*rolloutv1.Target{whole, part} {
		Primed(r, x, primeAt)
		Primed(r, x, primeAt)
	}
	AheadEnded(r, whole, nil)
	AheadEnded(r, part, halt("NO_SPACE", "full"))
	AheadEnded(r, whole, nil)
	AheadEnded(r, part, nil)
	AheadEnded(r, part, nil) // said twice
	NotPrimed(r, left, primeAt, halt("CHANGED_SINCE", "other"))
	NotPrimed(r, whole, primeAt, halt("CHANGED_SINCE", "other"))
	if r.Primed != 3 || r.FetchedAhead != 1 || r.NotFetchedAhead != 2 || Unprimed(left) {
		t.Errorf("it is %v", r)
	}
}

func TestAPauseOfTheSiteHoldsBackWhatPassesClosedDoors(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"emergency": func(in *Input) { in.Rollout.Strategy.Emergency = true },
		"override":  func(in *Input) { in.Rollout.Strategy.Override = true },
	} {
		in := waitsFor(3)
		change(&in)
		if d := Decide(in); len(d.Release) == 0 {
			t.Errorf("%s: nothing is released: %v", name, d)
		}
		in.Paused, in.PausedUntil = "the site is paused: a move", primeAt.Add(time.Hour)
		d := Decide(in)
		if d.Acts() || !d.Next.Equal(in.PausedUntil) || !strings.Contains(d.Waits, in.Paused) {
			t.Errorf("%s, paused: %+v", name, d)
		}
	}
}
