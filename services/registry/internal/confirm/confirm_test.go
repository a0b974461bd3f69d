package confirm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestABookEqualsAMapOfTimes(t *testing.T) {
	servers := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	times := rapid.Int64Range(1, 9)
	rapid.Check(t, func(t *rapid.T) {
		b, model := New(), map[string]int64{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			s := servers.Draw(t, "server")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				b.Expect(s)
				model[s] += 0
			case 1:
				at := times.Draw(t, "at")
				b.Confirm(s, time.Unix(at, 0))
				model[s] = max(model[s], at)
			case 2:
				b.Keep(func(have string) bool { return have != s })
				delete(model, s)
			}
		}
		since, most := times.Draw(t, "since"), rapid.IntRange(0, 4).Draw(t, "most")
		var want []string
		for s, at := range model {
			if at < since {
				want = append(want, s)
			}
			if b.ConfirmedSince(s, time.Unix(since, 0)) != (at >= since) {
				t.Fatalf("%s, confirmed at %d, since %d", s, at, since)
			}
		}
		slices.Sort(want)
		got, ok := b.Unconfirmed(time.Unix(since, 0), most)
		if ok != (len(want) <= most) {
			t.Fatalf("%d of %v at most: ok is %v", most, want, ok)
		}
		if diff := cmp.Diff(want, got); ok && diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAServerThatConfirmedNothingIsUnknown(t *testing.T) {
	b := New()
	if b.Expect("a"); !b.At("a").IsZero() || b.ConfirmedSince("a", time.Unix(1, 0)) {
		t.Error("it has a time")
	}
}
