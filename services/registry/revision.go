package registry

import (
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
)

// checkRevision refuses a request that is based on another revision than the record has; 0 is based on none.
func (d *declared[T]) checkRevision(have T, based uint64) error {
	if based == 0 || based == have.GetRevision() {
		return nil
	}
	what, at := "created it", have.GetCreatedAt()
	if have.GetChangedAt() != nil {
		what, at = "changed "+strings.Join(have.GetChanged(), ", "), have.GetChangedAt()
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"%s %q has revision %d, not %d: %s %s at %s", d.noun, have.GetName(), have.GetRevision(), based,
		have.GetChangedBy(), what, at.AsTime().UTC().Format(time.RFC3339)).
		Try(fmt.Sprintf("%s show %s, and then the change again", d.command, have.GetName()))
}

// checkDefaultRevision refuses a request that is based on another revision than a default has; 0 is based on none.
func checkDefaultRevision(
	environment, agent string, have *environmentv1.Default, based uint64,
) error {
	if based == 0 || have.GetRevision() == based {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"the default of agent %q in environment %q has revision %d, not %d: %s set it at %s", agent, environment,
		have.GetRevision(), based, have.GetActor(), have.GetSetAt().AsTime().UTC().Format(time.RFC3339)).
		Try("garrison env show " + environment + ", and then the change again")
}

// checkRuleRevision refuses a request that is based on another revision than a label rule has; 0 is based on none.
func checkRuleRevision(name string, have *labelrulev1.LabelRule, based uint64) error {
	if based == 0 || have.GetRevision() == based {
		return nil
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"label rule %q has revision %d, not %d: %s set it at %s", name, have.GetRevision(), based, have.GetSetBy(),
		have.GetSetAt().AsTime().UTC().Format(time.RFC3339)).Try("garrison label-rule list, and then the change again")
}
