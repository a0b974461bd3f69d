package work

import (
	"fmt"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// askText returns the verb and the agent of an intent.
func askText(i *intentv1.Intent, agent string) string {
	ask := i.ProtoReflect().WhichOneof(i.ProtoReflect().Descriptor().Oneofs().ByName("ask"))
	if ask == nil {
		return agent
	}
	verb := string(ask.Name())
	if i.GetRefresh().GetPurgeKept() {
		verb = "purge-undo"
	}
	return strings.TrimSpace(verb + " " + agent)
}

// countsText returns, in parentheses, the numbers of servers that do not change.
func countsText(already, passedOver, leftOut uint32) string {
	var more []string
	if already > 0 {
		more = append(more, fmt.Sprintf("%d up to date", already))
	}
	if passedOver > 0 {
		more = append(more, fmt.Sprintf("%d skipped", passedOver))
	}
	if leftOut > 0 {
		more = append(more, fmt.Sprintf("%d left out", leftOut))
	}
	if len(more) == 0 {
		return ""
	}
	return " (" + strings.Join(more, ", ") + ")"
}
