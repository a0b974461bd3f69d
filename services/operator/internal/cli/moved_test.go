package cli

import (
	"slices"
	"testing"
)

func TestALaterPlanIsComparedByName(t *testing.T) {
	before := []Planned{{"a", "comes at 1"}, {"b", "comes at 1"}, {"c", "goes"}}
	now := []Planned{{"d", "goes"}, {"b", "comes at 2"}, {"c", "goes"}}
	want := []string{
		"d: goes, not planned before", "b: planned comes at 1, now comes at 2", "a: planned comes at 1, now nothing",
	}
	if have := moved(before, now); !slices.Equal(have, want) {
		t.Errorf("moved %q; want %q", have, want)
	}
}
