package watch

import (
	"fmt"
	"strings"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// counts is the number of changes by outcome.
type counts struct {
	succeeded, failed int
	how               []string // the outcomes of those that failed
}

// Tally counts tasks by outcome.
func Tally(tasks []display.Task) counts {
	var n counts
	for _, t := range tasks {
		switch {
		case t.GetState() == taskv1.State_STATE_SUCCEEDED:
			n.succeeded++
		case display.TaskEnded(t):
			n.failed++
		}
	}
	return n
}

// String implements fmt.Stringer.
func (n counts) String() string {
	text := fmt.Sprintf("done: %s succeeded", listing.Plural(n.succeeded, "task"))
	switch {
	case n.failed == 0:
		return text
	case n.succeeded == 0:
		text = fmt.Sprintf("failed: 0 of %s succeeded", listing.Plural(n.failed, "task"))
	default:
		text += fmt.Sprintf(", %d failed", n.failed)
	}
	if len(n.how) > 0 {
		text += " (" + strings.Join(n.how, ", ") + ")"
	}
	return text
}

// Code returns the exit code: 0 when all succeeded, 5 when some did, else 1.
func (n counts) Code() int {
	switch {
	case n.failed == 0:
		return cli.ExitOK
	case n.succeeded > 0:
		return cli.ExitPartly
	}
	return cli.ExitError
}
