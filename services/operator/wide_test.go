package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

func TestAReinstallOfManyServersIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for n := range work.MostAtOnce + 1 {
		names = append(names, fmt.Sprint("web-", n))
	}
	for name, c := range map[string]struct {
		args    []string
		refused bool
	}{
		"too many":          {names, true},
		"too many, dry run": {append(slices.Clone(names), "--dry-run"), true},
		"at once":           {append(slices.Clone(names), "--at-once"), false},
		"fewer":             {names[1:], false},
	} {
		var said strings.Builder
		s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
		line := append([]string{"server", "reinstall"}, c.args...)
		if have := run(t.Context(), s, line); have == cli.ExitOK {
			t.Errorf("%s: it succeeds without a bus", name)
		}
		const why = "the command would empty 101 servers; 100 are allowed at once"
		if have := said.String(); strings.Contains(have, why) != c.refused {
			t.Errorf("%s: %q; want it refused: %v", name, have, c.refused)
		}
	}
}
