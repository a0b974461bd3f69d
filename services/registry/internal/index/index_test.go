package index

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestASetEqualsAMapOfSortedLists(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "ab", "b", "c", "abc"})
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		model := map[string][]string{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			g, m := names.Draw(t, "group"), names.Draw(t, "member")
			at, there := slices.BinarySearch(model[g], m)
			if rapid.Bool().Draw(t, "add") {
				s.Add(Group{"f", g}, m)
				if !there {
					model[g] = slices.Insert(model[g], at, m)
				}
				continue
			}
			s.Remove(Group{"f", g}, m)
			if there {
				model[g] = slices.Delete(model[g], at, at+1)
			}
		}
		g, after, prefix := names.Draw(t, "group"), rapid.SampledFrom([]string{"", "a", "ab", "b"}).
			Draw(t, "after"),
			names.Draw(t, "prefix")
		check(t, &s, Group{"f", g}, model[g], after, prefix)
		checkUnion(t, &s, model, after)
	})
}

func check(t *rapid.T, s *Set, group Group, want []string, after, prefix string) {
	behind := slices.DeleteFunc(slices.Clone(want), func(m string) bool { return after != "" && m <= after })
	if diff := cmp.Diff(list(behind), list(slices.Collect(s.Ascend(group, after)))); diff != "" {
		t.Fatalf("behind %q: %s", after, diff)
	}
	starts := slices.DeleteFunc(slices.Clone(want), func(m string) bool { return !strings.HasPrefix(m, prefix) })
	if diff := cmp.Diff(list(starts), list(slices.Collect(s.Prefixed(group, prefix, "")))); diff != "" {
		t.Fatalf("from %q: %s", prefix, diff)
	}
	if s.Count(group) != len(want) {
		t.Fatalf("count %d; want %d", s.Count(group), len(want))
	}
}

func list(members []string) string { return strings.Join(members, " ") }

func checkUnion(t *rapid.T, s *Set, model map[string][]string, after string) {
	var groups []Group
	var want []string
	for _, g := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "ab", "b"}), rapid.ID).Draw(t, "groups") {
		groups, want = append(groups, Group{"f", g}), append(want, model[g]...)
	}
	slices.Sort(want)
	want = slices.DeleteFunc(slices.Compact(want), func(m string) bool { return after != "" && m <= after })
	if diff := cmp.Diff(list(want), list(slices.Collect(s.Union(groups, after)))); diff != "" {
		t.Fatalf("union of %v behind %q: %s", groups, after, diff)
	}
	distinct := 0
	for _, members := range model {
		if len(members) > 0 {
			distinct++
		}
	}
	if n := len(slices.Collect(s.Values("f"))); n != distinct || s.Distinct("f") != distinct {
		t.Fatalf("%d values, counted %d; want %d", n, s.Distinct("f"), distinct)
	}
}
