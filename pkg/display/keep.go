package display

import (
	"fmt"
	"strings"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// LimitText returns a limit as it is printed.
func LimitText(l *rolloutv1.Limit) string {
	if p, ok := l.GetBy().(*rolloutv1.Limit_Percent); ok {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprint(l.GetServers())
}

// KeepText returns keep budgets as they are read.
func KeepText(budgets []*rolloutv1.Keep) string {
	var out []string
	for _, k := range budgets {
		out = append(out, strings.ReplaceAll(LimitText(k.GetWorking()), " ", "")+"/"+k.GetField())
	}
	return strings.Join(out, ", ")
}
