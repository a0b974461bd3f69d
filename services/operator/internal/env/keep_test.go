package env

import (
	"testing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestABudgetThatNeedsEveryServerIsNoted(t *testing.T) {
	groups := func(counts ...uint64) (out []*registryv1.CountGroup) {
		for n, count := range counts {
			out = append(out, &registryv1.CountGroup{Values: []string{string(rune('a' + n))}, Count: count})
		}
		return out
	}
	for _, c := range []struct {
		budget string
		groups []*registryv1.CountGroup
		want   string
	}{
		{"2/label.rack", groups(3, 4), ""},
		{"2/label.rack", nil, ""},
		{"0/label.rack", groups(1), ""},
		{"90%/env", groups(10), ""},
		{"90%/env", groups(9), "environment prod has 9 servers and needs 9: no working server there can change while " +
			"90%/env holds"},
		{"2/label.rack", groups(2, 3, 1), "rack=a has 2 servers and needs 2, rack=c has 1 server and needs 2: " +
			"no working server there can change while 2/label.rack holds"},
		{"9/label.rack", groups(1, 1, 1, 1, 1), "rack=a has 1 server and needs 9, rack=b has 1 server and needs 9, " +
			"rack=c has 1 server and needs 9 and 2 more: no working server there can change while 9/label.rack holds"},
	} {
		b, err := cli.ReadKeep(c.budget)
		if err != nil {
			t.Fatal(err)
		}
		if have := keepNote(&environmentv1.Environment{Name: "prod"}, b, c.groups); have != c.want {
			t.Errorf("%s: have %q, want %q", c.budget, have, c.want)
		}
	}
}
