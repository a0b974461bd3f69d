// Package keep counts how many servers work for each value of a label, and spends what keep budgets allow. A keep
// budget says how many of the servers with one value must work at any moment. The task-dispatcher admits tasks by it,
// and the registry releases servers of rollouts by it, so both use the same arithmetic. It is pure.
//
//	tally := keep.NewTally()
//	tally.Set("s1", keep.GroupsOf(budgets, "prod", labels), works)
//	spending := keep.NewSpending(tally)
//	held, ok := spending.Take("s1", budgets)
//
// Guarantees:
//
//  1. A server that does not work costs nothing: taking it away leaves as many working ones as before.
//  2. Take never leaves fewer working servers of a group than its budget needs, whatever was taken before.
//  3. One server is spent once, however many of its agents change.
package keep

import (
	"cmp"
	"fmt"
	"strings"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// The bounds of an environment's budgets.
const (
	Most       = 8
	mostServer = 1_000_000
)

// The fields by which the standing budgets of an environment count.
const (
	wholeEnvironment = "env"
	labelPrefix      = "label."
)

// Group is the servers of an environment with one value of a field.
type Group struct{ Environment, Field, Value string }

// Count is how many servers a group has, and how many of them work.
type Count struct{ All, Working int }

// Check returns what is wrong with the standing budgets of an environment, or nil.
func Check(budgets []*rolloutv1.Keep) error {
	if len(budgets) > Most {
		return fmt.Errorf("%d keep budgets; %d are the most", len(budgets), Most)
	}
	seen := map[string]bool{}
	for _, b := range budgets {
		name, label := strings.CutPrefix(b.GetField(), labelPrefix)
		switch {
		case b.GetField() != wholeEnvironment && (!label || name == ""):
			return fmt.Errorf("a keep budget counts by env or by label.NAME, not by %q", b.GetField())
		case seen[b.Field]:
			return fmt.Errorf("two keep budgets count by %s", b.Field)
		case b.GetWorking().GetBy() == nil:
			return fmt.Errorf("the keep budget of %s needs a number or a percentage", b.Field)
		case b.Working.GetPercent() > 100:
			return fmt.Errorf("a keep budget of %d %%; 100 is the most", b.Working.GetPercent())
		case b.Working.GetServers() > mostServer:
			return fmt.Errorf("a keep budget of %d servers; %d is the most", b.Working.GetServers(), mostServer)
		}
		seen[b.Field] = true
	}
	return nil
}

// Needed returns how many of all servers a budget needs; percentages are rounded up.
func Needed(b *rolloutv1.Keep, all int) int {
	if by, ok := b.GetWorking().GetBy().(*rolloutv1.Limit_Percent); ok {
		return (all*int(by.Percent) + 99) / 100
	}
	return int(b.GetWorking().GetServers())
}

// NeedsAll reports whether a budget that needs some of all servers needs each of them, so that no working one may
// change.
func NeedsAll(needed, all int) bool { return all > 0 && needed >= all }

// GroupsOf returns the groups of a server, by position in the budgets of its environment.
func GroupsOf(budgets []*rolloutv1.Keep, environment string, labels map[string]string) []Group {
	if len(budgets) == 0 {
		return nil
	}
	groups := make([]Group, len(budgets))
	for n, b := range budgets {
		value := environment
		if name, label := strings.CutPrefix(b.Field, labelPrefix); label {
			value = labels[name]
		}
		groups[n] = Group{environment, b.Field, value}
	}
	return groups
}

// Words returns why a budget holds a server back.
func Words(b *rolloutv1.Keep, g Group, c Count) string {
	name := g.Field + " " + cmp.Or(g.Value, "none")
	if g.Field == wholeEnvironment {
		name = "the environment"
	}
	return fmt.Sprintf("%d of %d servers of %s work and are not being changed, and the keep budget of environment %s "+
		"needs %d", c.Working, c.All, name, g.Environment, Needed(b, c.All))
}
