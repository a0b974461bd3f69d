package events

import (
	"strings"

	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// holdDetail summarizes a fact about a hold.
func holdDetail(f ledger.Fact) string {
	switch b := f.Body.(type) {
	case *holdv1.Hold:
		text := b.GetAgent() + " " + selector.Args(b.GetOn())
		if b.GetUntil() != nil {
			text += " until " + output.Stamp(b.GetUntil())
		}
		return strings.TrimSuffix(text+": "+b.GetReason(), ": ")
	case *holdv1.Unset:
		if b.GetPassed() {
			return "its time passed"
		}
	}
	return ""
}
