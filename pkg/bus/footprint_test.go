package bus

import (
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"
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
			if matches(g, m.Subject) {
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

func TestGuardsMatchAsSubjectsOfTheBusDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		guard, subject string
		want           bool
	}{
		{"a.b.c", "a.b.c", true},
		{"a.b.c", "a.b.d", false},
		{"a.b", "a.b.c", false},
		{"a.b.c", "a.b", false},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.b.d", false},
		{"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true},
		{"a.b.c.>", "a.b.c", false},
		{"*.b.*", "a.b.c", true},
	} {
		if got := matches(c.guard, c.subject); got != c.want {
			t.Errorf("%s matches %s: %v, want %v", c.guard, c.subject, got, c.want)
		}
	}
}
