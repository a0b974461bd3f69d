package registry

import (
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

func TestARepeatedChangeIsAcceptedAlthoughADependencyIsGone(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("db")
	s.agent("web", "db")
	must[*registryv1.DeleteAgentResponse](s, "DeleteAgent", &registryv1.DeleteAgentRequest{Name: "db"})
	same := &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Dependencies: []string{"db"}}
	must[*registryv1.ChangeAgentResponse](s, "ChangeAgent", &registryv1.ChangeAgentRequest{Agent: same})
	other := &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Dependencies: []string{"db", "web2"}}
	if got := s.code("ChangeAgent", &registryv1.ChangeAgentRequest{Agent: other}); got != "UNKNOWN_AGENT" {
		t.Errorf("a change that names unknown agents: code %q", got)
	}
}
