package drift

import (
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Default is an agent that the server's environment wants of it and that cannot be installed on it now.
type Default struct {
	Agent string
	Why   *apiv1.Refusal
	Since *timestamppb.Timestamp
}

// ofDefault returns the difference of a default that waits: no record of an instance wants its agent yet.
func (s Situation) ofDefault(w Default) *registryv1.Difference {
	d := &registryv1.Difference{
		Agent: w.Agent, Wanted: "the default of " + s.Server.Environment, Observed: "nothing",
		Cause: known(w.Why.Code, code.NeverInstalled), Reason: w.Why.Message, Since: w.Since, Remedy: person,
		Cure: strings.ReplaceAll(w.Why.Try, "--on SELECTOR", "--on "+s.Server.Name),
	}
	if d.Cause == code.ServerReinstalling {
		d.Remedy = wait
	}
	if d.Cure == "" {
		d.Cure = "garrison env default list " + s.Server.Environment
	}
	return d
}
