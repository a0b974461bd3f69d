package cli

import (
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Refuse returns a refusal of the command line itself.
func Refuse(kind fault.Kind, r *apiv1.Refusal) error { return fault.Refuse(kind, r) }
