package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// anyUnit draws a unit over few subjects, so that units meet.
func anyUnit(t *rapid.T) *unit {
	token := rapid.SampledFrom([]string{"a", "b"})
	guards := rapid.SampledFrom(
		[]string{"l.a.a", "l.a.b", "l.b.a", "l.a.*", "l.b.*", "l.*.a", "l.*.b", "l.*.*", "l.>", "m.a.a", "m.>"})
	u := &unit{guards: rapid.SliceOfN(guards, 0, 2).Draw(t, "guards")}
	for range rapid.IntRange(1, 2).Draw(t, "facts") {
		u.msgs = append(u.msgs, &nats.Msg{Subject: "l." + token.Draw(t, "key") + "." + token.Draw(t, "fact")})
	}
	return u
}

// touches is what collides means, for two units and without an index.
func touches(a, b *unit) bool {
	for _, g := range a.guards {
		for _, m := range b.msgs {
			if topology.Matches(g, m.Subject) {
				return true
			}
		}
	}
	return false
}

func TestAUnitCollidesWithWhatGuardsItOrIsGuardedByIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newFootprint()
		var before []*unit
		for range rapid.IntRange(0, 4).Draw(t, "units") {
			u := anyUnit(t)
			f.add(u)
			before = append(before, u)
		}
		u, want := anyUnit(t), false
		for _, other := range before {
			want = want || touches(u, other) || touches(other, u)
		}
		if got := f.collides(u); got != want {
			t.Fatalf("collides is %v, want %v", got, want)
		}
	})
}
