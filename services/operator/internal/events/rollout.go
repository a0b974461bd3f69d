package events

import (
	"fmt"
	"strings"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// rolloutDetail summarizes a fact about a rollout.
func rolloutDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *rolloutv1.Planned:
		part := fmt.Sprintf("part %d of %d", b.GetPart(), b.GetParts())
		return strings.TrimPrefix(fmt.Sprintf("%s: %s in %s, %s", display.InLane(b.GetTitle(), b.GetStrategy()),
			output.Plural(len(b.GetTargets()), "server"), output.Plural(len(b.GetWaves()), "wave"), part), ": ") +
			startsText(b)
	case *rolloutv1.Released:
		text := fmt.Sprintf("wave %d: %s", b.GetWave(), output.Plural(len(b.GetServerIds()), "server"))
		if b.GetStep() > 1 {
			text += fmt.Sprintf(", step %d of their changes", b.GetStep())
		}
		return text
	case *rolloutv1.Primed:
		return output.Plural(len(b.GetServerIds()), "server") + " asked to fetch ahead"
	case *rolloutv1.Silenced:
		return output.Plural(len(b.GetServerIds()), "server")
	case *rolloutv1.Halted:
		return fmt.Sprintf("wave %d: %s", b.GetWave(), display.Reason(b.GetReason()))
	case *rolloutv1.Rejected:
		return fmt.Sprintf("wave %d: %s", b.GetWave(), display.Reason(b.GetReason()))
	case *rolloutv1.Approved:
		return strings.TrimSuffix(fmt.Sprintf("wave %d: %s", b.GetWave(), b.GetReason()), ": ")
	case *rolloutv1.Succeeded:
		return succeededText(b)
	case *rolloutv1.Undone:
		text := "by rollout " + b.GetByRolloutId()
		if taken := display.ThenText(b.GetTakenBack()); taken != "" {
			text += "; taken back " + taken
		}
		return text
	case interface{ GetWave() uint32 }:
		return fmt.Sprintf("wave %d", b.GetWave())
	case interface{ GetReason() string }:
		return b.GetReason()
	}
	return ""
}

// succeededText returns how many servers a rollout that succeeded did not change, and what was recorded with its end.
func succeededText(b *rolloutv1.Succeeded) string {
	text := fmt.Sprintf("%d owed", b.GetOwed())
	if n := b.GetLeftOut(); n > 0 {
		text += fmt.Sprintf(", %d left out", n)
	}
	if then := display.ThenText(b.GetThen()); then != "" {
		text += "; recorded " + then
	}
	return text
}

// startsText returns when a planned rollout begins, after a comma; "" for one that begins at once.
func startsText(b *rolloutv1.Planned) string {
	if b.GetStartAt() == nil {
		return ""
	}
	return ", begins " + output.Stamp(b.GetStartAt())
}
