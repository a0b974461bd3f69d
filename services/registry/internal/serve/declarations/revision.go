package declarations

import (
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
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
