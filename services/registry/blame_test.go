package registry

import (
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
)

// set makes a value the one that web is configured with from its next change on.
func (s *site) set(level string) {
	s.append(fact(ledger.Agent, "web", &agentv1.Changed{Agent: &agentv1.Agent{
		Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Metadata: map[string]string{"level": level},
	}}))
}
