package registry

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// vms declares an agent of kind external that the caller of the site reports.
func (s *site) vms(within time.Duration) {
	s.t.Helper()
	must[*registryv1.CreateAgentResponse](s, "CreateAgent", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{
		Name: "vm", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "alice", ReportWithin: durationpb.New(within),
	}})
}

func (s *site) reportVMs(complete *registryv1.Range, found ...*externalv1.Found) *registryv1.ReportExternalResponse {
	s.t.Helper()
	return must[*registryv1.ReportExternalResponse](s, "ReportExternal",
		&registryv1.ReportExternalRequest{Agent: "vm", Found: found, Complete: complete})
}

func good(name string) *externalv1.Found {
	return &externalv1.Found{Name: name, Version: "1", Health: instancev1.Health_HEALTH_GOOD}
}
