package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/reconcile"
)

var fleet = map[string][]string{"prod": {"p1", "p2"}, "lab": {"l1"}}

func newQueue(now *time.Time) *reconcile.Queue[string] {
	return reconcile.NewQueue(func() time.Time { return *now }, func(group string) []string { return fleet[group] })
}

func TestAQueueHoldsEachKeyOnceAndReturnsWhatIsDue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := newQueue(&now)
	q.Add("a", "b", "a")
	q.AddAt(now.Add(time.Second), "a", "c")
	q.AddLater("c", "d", "a")
	if q.Len() != 4 || !q.Has("c") || q.Has("e") {
		t.Errorf("%d keys wait, c among them: %v; want 4", q.Len(), q.Has("c"))
	}
	have, want := q.Take(0), []string{"a", "b", "c", "d"}
	if slices.Sort(have); !slices.Equal(have, want) {
		t.Errorf("taken %v; want %v", have, want)
	}
	if now = now.Add(time.Second); !slices.Equal(q.Take(0), []string{"c"}) || q.Len() > 0 {
		t.Errorf("c is not looked at again at its time, or %d keys wait after all were taken", q.Len())
	}
}

func TestAKeyIsDueAtTheEarliestOfItsTimes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := newQueue(&now)
	q.AddAt(now.Add(2*time.Second), "a")
	q.AddAt(now.Add(time.Second), "a")
	q.AddAt(now.Add(3*time.Second), "a")
	if have := q.Take(0); len(have) > 0 {
		t.Errorf("%v is due too early", have)
	}
	if now = now.Add(time.Second); !slices.Equal(q.Take(0), []string{"a"}) || q.Len() > 0 {
		t.Error("a is not due at its time")
	}
	q.Latest = time.Minute
	q.AddAt(now.Add(time.Hour), "b")
	if have := q.Take(0); !slices.Equal(have, []string{"b"}) {
		t.Errorf("%v is due; want b, whose time a clock gave that was set back", have)
	}
}

func TestWhatIsDueGoesBeforeGroups(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	q := newQueue(&now)
	q.AddGroup("prod", "lab")
	q.Add("x")
	if have := q.Take(1); !slices.Equal(have, []string{"x"}) {
		t.Errorf("first comes %v; want x", have)
	}
	first, rest := q.Take(2), q.Take(2)
	have := slices.Concat(first, rest)
	if slices.Sort(have); len(first) != 2 || !slices.Equal(have, []string{"l1", "p1", "p2"}) {
		t.Errorf("then come %v and %v; want both groups in parts of two", first, rest)
	}
}

func TestALoopPutsOffAPassThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, tries := time.Now(), []time.Duration(nil)
		q := reconcile.NewQueue[string](time.Now, nil)
		q.Add("a")
		go func() {
			_ = reconcile.Loop[string]{
				Name: "test", Queue: q, Pause: time.Second, Retry: time.Minute, Log: zerolog.Nop(),
				Pass: func(context.Context, []string) error {
					if tries = append(tries, time.Since(began)); len(tries) < 3 {
						return errors.New("the bus is away")
					}
					return nil
				},
			}.Run(ctx)
		}()
		time.Sleep(time.Hour)
		cancel()
		synctest.Wait()
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; !slices.Equal(tries, want) {
			t.Errorf("passes at %v; want %v", tries, want)
		}
	})
}

func TestALoopTicksAndLooksAtKeysWhoseTimeCame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, passes, ticks := time.Now(), []time.Duration(nil), 0
		q := reconcile.NewQueue[string](time.Now, nil)
		q.AddAt(began.Add(150*time.Second), "a")
		go func() {
			_ = reconcile.Loop[string]{
				Name: "test", Queue: q, Every: time.Minute, Tick: func() { ticks++ }, Log: zerolog.Nop(),
				Pass: func(context.Context, []string) error {
					passes = append(passes, time.Since(began))
					return nil
				},
			}.Run(ctx)
		}()
		time.Sleep(5*time.Minute + time.Second)
		cancel()
		synctest.Wait()
		if want := []time.Duration{3 * time.Minute}; !slices.Equal(passes, want) || ticks != 5 {
			t.Errorf("passes at %v after %d ticks; want %v after 5", passes, ticks, want)
		}
	})
}
