package usual_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/usual"
)

const fetch, prove = taskv1.Step_STEP_FETCH, taskv1.Step_STEP_PROVE

func step(s taskv1.Step, took time.Duration) *taskv1.StepTime {
	return &taskv1.StepTime{Step: s, Took: durationpb.New(took)}
}

// learnt returns what n changes show that took this long for all but the fetch, and that for the fetch.
func learnt(n int, work, fetched time.Duration) (r *dispatcherv1.DurationsRecord) {
	for range n {
		r = usual.Learn(r, work+fetched, []*taskv1.StepTime{step(fetch, fetched), step(prove, work)})
	}
	return r
}

// near reports whether a duration is the other one, or that rounded up to its class.
func near(have, exact time.Duration) bool { return have >= exact && have <= exact*6/5+time.Millisecond }

var bounds = usual.Bounds{Least: 3 * time.Minute, Unknown: 10 * time.Minute, Most: time.Hour}

func TestAChangeHasTheTimeThatOthersOfItsKindNeeded(t *testing.T) {
	const mega = 1 << 20
	fast := learnt(100, 20*time.Second, time.Second)
	long := learnt(100, 5*time.Minute, 4*time.Minute)
	for _, c := range []struct {
		name   string
		change usual.Change
		beside []usual.Change
		want   time.Duration
	}{
		{"nothing is known", usual.Change{}, nil, bounds.Unknown},
		{"too few are known", usual.Change{Durations: learnt(usual.Enough-1, time.Second, 0)}, nil, bounds.Unknown},
		{"just enough", usual.Change{Durations: learnt(usual.Enough, time.Second, 0)}, nil, bounds.Least},
		{"the floor", usual.Change{Durations: fast}, nil, bounds.Least},
		{"four times what it takes", usual.Change{Durations: learnt(100, time.Minute, 0)}, nil, 4 * time.Minute},
		{"beyond what is assumed", usual.Change{Durations: long}, nil, 36 * time.Minute},
		{"the cap", usual.Change{Durations: learnt(100, time.Hour, 0)}, nil, bounds.Most},
		{"an image of 40 MiB on a slow link", usual.Change{Durations: fast, Bytes: 40 * mega}, nil, 400 * time.Second},
		{"an image that is far larger", usual.Change{Durations: fast, Bytes: 500 * mega}, nil, bounds.Unknown},
		{"the largest image", usual.Change{Durations: fast, Bytes: 1<<64 - 1}, nil, bounds.Unknown},
		{"what is large shortens nothing", usual.Change{Durations: long, Bytes: 500 * mega}, nil, 36 * time.Minute},
		{"the one before timed out", usual.Change{Durations: fast, TimedOut: true}, nil, bounds.Unknown},
		{"others beside it", usual.Change{Durations: fast}, []usual.Change{{Durations: fast}, {Durations: fast}},
			243 * time.Second},
		{"an unknown one", usual.Change{Durations: fast}, []usual.Change{{}}, bounds.Unknown},
		{"many beside it", usual.Change{Durations: fast}, slices.Repeat([]usual.Change{{Durations: fast}}, 100),
			bounds.Unknown},
	} {
		if have := bounds.Within(c.change, c.beside); !near(have, c.want) || have > bounds.Most {
			t.Errorf("%s: %s, want %s", c.name, have, c.want)
		}
	}
}

// A rare change that takes long decides once it is one in a hundred, and is forgotten with its window.
func TestOnlyTheNewestChangesCount(t *testing.T) {
	const window = 256
	r := learnt(1000, time.Minute, 0)
	for range 6 {
		r = usual.Learn(r, 10*time.Minute, nil)
	}
	if have := bounds.Within(usual.Change{Durations: r}, nil); !near(have, 40*time.Minute) {
		t.Errorf("after six slow ones: %s, want 40 minutes", have)
	}
	for range 2 * window {
		r = usual.Learn(r, time.Minute, nil)
	}
	if have := bounds.Within(usual.Change{Durations: r}, nil); !near(have, 4*time.Minute) {
		t.Errorf("after as many others: %s, want 4 minutes", have)
	}
}

func TestTheMedianIsThatOfTheStep(t *testing.T) {
	var r *dispatcherv1.DurationsRecord
	for n := range 2*usual.Enough - 1 {
		steps := []*taskv1.StepTime{step(prove, time.Duration(n+1)*time.Second)}
		if n < usual.Enough-1 {
			steps = append(steps, step(fetch, time.Second))
		}
		r = usual.Learn(r, time.Duration(n+1)*time.Second, steps)
	}
	if have, ok := usual.Median(r, prove); !ok || !near(have, usual.Enough*time.Second) {
		t.Errorf("the median of 1 s to %d s is %s", 2*usual.Enough-1, have)
	}
	if _, ok := usual.Median(r, fetch); ok {
		t.Error("a median of too few")
	}
}

// A server may report anything, and influences one duration of a step.
func TestWhateverAServerReportsIsOneDuration(t *testing.T) {
	odd := []*taskv1.StepTime{
		nil, {}, {Step: 99, Took: durationpb.New(time.Hour)}, {Step: prove}, step(prove, -time.Hour),
		{Step: prove, Took: &durationpb.Duration{Seconds: 1<<63 - 1}}, step(taskv1.Step_STEP_UNSPECIFIED, time.Hour),
	}
	took := usual.StepTimes(time.Minute, odd)
	if took[taskv1.Step_STEP_UNSPECIFIED] != time.Minute || took[prove] < 24*time.Hour || len(took) != 2 {
		t.Errorf("the steps took %v", took)
	}
	r := learnt(1000, time.Second, time.Second)
	for range 2 {
		r = usual.Learn(r, -time.Hour, odd)
	}
	if have, _ := usual.Median(r, prove); !near(have, time.Second) {
		t.Errorf("the median is %s", have)
	}
	if have := bounds.Within(usual.Change{Durations: r}, nil); have != bounds.Least {
		t.Errorf("the deadline is %s", have)
	}
}

// However many there are, a record stays small, and what it shows is at most a class away from the durations.
func TestARecordIsBoundedAndShowsTheQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(1, int64(time.Hour)), usual.Enough, 255).Draw(t, "durations")
		var r *dispatcherv1.DurationsRecord
		for _, d := range all {
			r = usual.Learn(r, time.Duration(d), nil)
		}
		slices.Sort(all)
		want := time.Duration(all[(len(all)+1)/2-1])
		if have, _ := usual.Median(r, taskv1.Step_STEP_UNSPECIFIED); !near(have, want) {
			t.Fatalf("the median of %d is %s, want %s", len(all), have, want)
		}
		for range 3 {
			for _, d := range all {
				r = usual.Learn(r, time.Duration(d), nil)
			}
		}
		if n := proto.Size(r); n > 2000 {
			t.Fatalf("a record of one step has %d bytes", n)
		}
	})
}

func ExampleBounds_Within() {
	var r *dispatcherv1.DurationsRecord
	for range usual.Enough {
		r = usual.Learn(r, time.Minute, nil)
	}
	b := usual.Bounds{Least: 2 * time.Minute, Unknown: 10 * time.Minute, Most: time.Hour}
	fmt.Println(b.Within(usual.Change{}, nil), b.Within(usual.Change{Durations: r}, nil).Round(10*time.Second))
	// Output: 10m0s 4m20s
}
