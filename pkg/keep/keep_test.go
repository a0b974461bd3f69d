package keep_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/keep"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func servers(field string, n uint32) *rolloutv1.Keep {
	return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: n}}}
}

func percent(field string, n uint32) *rolloutv1.Keep {
	return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: n}}}
}

func Example() {
	budgets := []*rolloutv1.Keep{servers("label.rack", 2)}
	tally := keep.NewTally()
	for _, id := range []string{"s1", "s2", "s3"} {
		tally.Set(id, keep.GroupsOf(budgets, "prod", map[string]string{"rack": "a"}), true)
	}
	spending := keep.NewSpending(tally)
	_, first := spending.Take("s1", budgets)
	held, second := spending.Take("s2", budgets)
	g := tally.GroupsOf("s2")[held]
	fmt.Println(first, second)
	fmt.Println(keep.Words(budgets[held], g, tally.Of(g)))
	// Output:
	// true false
	// 3 of 3 servers of label.rack a work and are not being changed, and the keep budget of environment prod needs 2
}

func TestABudgetThatCannotBeCountedIsRefused(t *testing.T) {
	for want, budgets := range map[string][]*rolloutv1.Keep{
		"":                            {servers("env", 1), percent("label.rack", 50)},
		"not by \"platform\"":         {servers("platform", 1)},
		"not by \"label.\"":           {servers("label.", 1)},
		"not by \"\"":                 {servers("", 1)},
		"two keep budgets":            {servers("env", 1), percent("env", 50)},
		"needs a number":              {{Field: "env"}},
		"101 %; 100 is the most":      {percent("env", 101)},
		"1000001 servers":             {servers("env", 1_000_001)},
		"9 keep budgets; 8 are the m": slices.Repeat([]*rolloutv1.Keep{servers("env", 1)}, 9),
	} {
		err := keep.Check(budgets)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", budgets, err, want)
		}
	}
}

func TestAPercentageIsRoundedUp(t *testing.T) {
	for _, c := range []struct{ percent, all, want int }{{50, 3, 2}, {1, 1, 1}, {100, 7, 7}, {0, 7, 0}, {50, 0, 0}} {
		if have := keep.Needed(percent("env", uint32(c.percent)), c.all); have != c.want {
			t.Errorf("%d %% of %d: %d; want %d", c.percent, c.all, have, c.want)
		}
	}
}

func TestABudgetOfEveryServerNeedsAll(t *testing.T) {
	for _, c := range []struct {
		needed, all int
		want        bool
	}{{2, 3, false}, {3, 3, true}, {4, 3, true}, {0, 0, false}, {1, 0, false}, {0, 1, false}} {
		if have := keep.NeedsAll(c.needed, c.all); have != c.want {
			t.Errorf("%d of %d: %t; want %t", c.needed, c.all, have, c.want)
		}
	}
}

// fleet is servers as a test knows them, without a tally.
type fleet struct {
	rack  map[string]string
	works map[string]bool
}

func (f fleet) count(rack string) (c keep.Count) {
	for id, r := range f.rack {
		if r == rack {
			if c.All++; f.works[id] {
				c.Working++
			}
		}
	}
	return c
}

func TestWhatIsTakenNeverLeavesFewerThanABudgetNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budgets := []*rolloutv1.Keep{servers("label.rack", rapid.Uint32Range(0, 3).Draw(t, "servers"))}
		if rapid.Bool().Draw(t, "percent") {
			budgets = []*rolloutv1.Keep{percent("label.rack", rapid.Uint32Range(0, 100).Draw(t, "share"))}
		}
		f, tally := fleet{map[string]string{}, map[string]bool{}}, keep.NewTally()
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			id := fmt.Sprint("s", rapid.IntRange(0, 9).Draw(t, "server"))
			if rapid.IntRange(0, 4).Draw(t, "goes") == 0 {
				delete(f.rack, id)
				tally.Drop(id)
				continue
			}
			f.rack[id] = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rack")
			f.works[id] = rapid.Bool().Draw(t, "works")
			tally.Set(id, keep.GroupsOf(budgets, "prod", map[string]string{"rack": f.rack[id]}), f.works[id])
		}
		spending := keep.NewSpending(tally)
		for _, id := range slices.Sorted(maps.Keys(f.rack)) {
			before := f.count(f.rack[id])
			g := tally.GroupsOf(id)[0]
			if first := tally.Of(g); first.All != before.All {
				t.Fatalf("%v is counted as %v; there are %v", g, first, before)
			}
			_, ok := spending.Take(id, budgets)
			if works := f.works[id]; ok && works {
				f.works[id] = false // it is taken away, and no longer works
			} else if !ok && (!works || before.Working > keep.Needed(budgets[0], before.All)) {
				t.Fatalf("%s is held back with %v", id, before)
			}
			after := f.count(f.rack[id])
			if ok && before.Working > after.Working && after.Working < keep.Needed(budgets[0], after.All) {
				t.Fatalf("%s is taken, which leaves %v", id, after)
			}
		}
	})
}
