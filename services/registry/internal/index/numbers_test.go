package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Numbers above 64 members of 400 become bits, and a list again when they become few.
func TestNumbersEqualASortedListHoweverDenseTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s, other numbers
		var model []uint32
		wasDense := false
		for range rapid.IntRange(1, 8).Draw(t, "phases") {
			adds := rapid.Bool().Draw(t, "adds")
			for _, n := range rapid.SliceOfN(rapid.Uint32Range(0, 400), 1, 150).Draw(t, "numbers") {
				at, there := slices.BinarySearch(model, n)
				switch {
				case adds && !there:
					model = slices.Insert(model, at, n)
				case !adds && there:
					model = slices.Delete(model, at, at+1)
				}
				if adds {
					s.add(n, 401)
				} else {
					s.remove(n)
				}
				if s.has(n) != adds || s.len() != len(model) {
					t.Fatalf("%d: has %v, %d members; want %v, %d", n, s.has(n), s.len(), adds, len(model))
				}
			}
			wasDense = wasDense || s.dense != nil
			if got := slices.Collect(s.all()); !slices.Equal(got, model) {
				t.Fatalf("dense %v: %v, want %v", s.dense != nil, got, model)
			}
			if len(model) > 200 && s.dense == nil || len(model) == 0 && s.dense != nil {
				t.Fatalf("%d members, dense %v", len(model), s.dense != nil)
			}
		}
		for _, n := range rapid.SliceOfN(rapid.Uint32Range(0, 900), 0, 100).Draw(t, "others") {
			other.add(n, 901)
			model = append(model, n)
		}
		slices.Sort(model)
		all := borrow() // which held another set in an earlier turn
		defer giveBack(all)
		unite(all, []*numbers{&s, &other})
		both := numbers{dense: all}
		if got, want := slices.Collect(both.all()), slices.Compact(model); !slices.Equal(got, want) ||
			both.len() != len(want) {
			t.Fatalf("union has %d: %v; want %v", both.len(), got, want)
		}
	})
}

// A large set has several chunks, which split and disappear, and groups of which some are sorted and others met in the
// order of all.
func TestALargeSetStaysInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		groups := map[string][]Group{}
		name := func(n int) string {
			return string([]byte{byte('a' + n%26), byte('a' + n/26%26), byte('a' + n/676%26)})
		}
		step := rapid.IntRange(1, 97).Draw(t, "step")
		for n := range rapid.IntRange(0, 3000).Draw(t, "members") {
			m, after := name(n*step), []Group{{"f", "all"}}
			if n%7 == 0 {
				after = append(after, Group{"f", "some"})
			}
			if n%300 == 0 {
				after = append(after, Group{"f", "few"})
			}
			if n%11 == 0 {
				after = nil
			}
			s.Change(m, groups[m], after)
			groups[m] = after
		}
		model := map[string][]string{}
		for m, in := range groups {
			for _, g := range in {
				model[g.Value] = append(model[g.Value], m)
			}
		}
		after := name(rapid.IntRange(0, 17575).Draw(t, "after"))
		for _, g := range []string{"all", "some", "few"} {
			slices.Sort(model[g])
			check(t, &s, Group{"f", g}, model[g], after, after[:1])
			for _, m := range model[g] {
				if n, ok := s.Number(m); !ok || s.Member(n) != m || !s.Has(Group{"f", g}, m) {
					t.Fatalf("%s has number %d, known %v, which is of %s", m, n, ok, s.Member(n))
				}
			}
		}
		if len(s.names.text)-len(s.names.free) != len(model["all"]) {
			t.Fatalf("%d numbers, %d of them free, for %d members", len(s.names.text), len(s.names.free),
				len(model["all"]))
		}
	})
}
