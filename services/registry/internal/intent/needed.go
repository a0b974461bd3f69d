package intent

import (
	"fmt"
	"slices"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"

	"github.com/garrison-fleet/garrison/services/registry/internal/image"
)

// needed refuses the removal of an agent that others on the server need, or returns nil. An agent
// that is itself being removed does not count: the task-dispatcher removes it first.
func (q *question) needed(s *serverv1.Server, have *instancev1.Instance) *apiv1.Refusal {
	if have.Wanted == nil {
		return nil // its removal is requested again
	}
	var by []string
	for i := range q.reader.InstancesOf(s.Id) {
		a, ok := q.reader.Agent(i.Agent)
		m, _ := q.reader.Image(i.Wanted.GetId())
		requires := image.Requirement(m.GetManifest(), have.Agent) != nil
		if i.Wanted != nil && (requires || ok && slices.Contains(a.Dependencies, have.Agent)) {
			by = append(by, i.Agent)
		}
	}
	if len(by) == 0 {
		return nil
	}
	return &apiv1.Refusal{
		Code: code.NeededBy, Message: fmt.Sprintf("agent %q is needed there by %s", have.Agent, strings.Join(by, ", ")),
		Try: "garrison remove " + by[0] + " --on SELECTOR",
	}
}
