package overview

import (
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestABudgetThatNeedsEveryServerIsNoted(t *testing.T) {
	groups := func(counts ...uint64) (out []*registryv1.CountGroup) {
		for n, count := range counts {
			out = append(out, &registryv1.CountGroup{Values: []string{string(rune('a' + n))}, Count: count})
		}
		return out
	}
	for _, c := range []struct {
		budget *rolloutv1.Keep
		groups []*registryv1.CountGroup
		want   string
	}{
		{working("label.rack", 2), groups(3, 4), ""},
		{working("label.rack", 2), nil, ""},
		{working("label.rack", 0), groups(1), ""},
		{percent("env", 90), groups(10), ""},
		{percent("env", 90), groups(9), "environment prod has 9 servers and needs 9: " +
			"no working server there can change while " +
			"90%/env holds"},
		{working("label.rack", 2), groups(2, 3, 1), "rack=a has 2 servers and needs 2, " +
			"rack=c has 1 server and needs 2: " +
			"no working server there can change while 2/label.rack holds"},
		{working("label.rack", 9), groups(1, 1, 1, 1, 1), "rack=a has 1 server and needs 9, " +
			"rack=b has 1 server and needs 9, " +
			"rack=c has 1 server and needs 9 and 2 more: no working server there can change while 9/label.rack holds"},
	} {
		if have := keepNote(&environmentv1.Environment{Name: "prod"}, c.budget, c.groups); have != c.want {
			t.Errorf("%v: have %q, want %q", c.budget, have, c.want)
		}
	}
}

func working(field string, servers uint32) *rolloutv1.Keep {
	return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: servers}}}
}

func percent(field string, n uint32) *rolloutv1.Keep {
	return &rolloutv1.Keep{Field: field, Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: n}}}
}
