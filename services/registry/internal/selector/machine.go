package selector

import (
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// MachineFields are the fields that a machine says of itself.
var MachineFields = []string{
	"platform", "os", "arch", "hostname", "kernel", "distribution", "cpus", "memory", "executor",
}

// CheckConditions refuses conditions that cannot be evaluated, or on a field that is not among those given.
func CheckConditions(r Reader, where []*intentv1.Condition, fields ...string) *apiv1.Refusal {
	for _, c := range where {
		if !slices.Contains(fields, c.GetField()) {
			return badSelector(fmt.Sprintf("%s: a condition on %q is not possible here (possible: %s)",
				conditionText(c), c.GetField(), strings.Join(fields, ", ")), "os=linux")
		}
		if refusal := checkCondition(r, c); refusal != nil {
			return refusal
		}
	}
	return nil
}

// MeetsAll reports whether a server meets all of some conditions, which CheckConditions accepted.
func MeetsAll(s *serverv1.Server, where []*intentv1.Condition) bool {
	return !slices.ContainsFunc(where, func(c *intentv1.Condition) bool { return !meets(s, c) })
}
