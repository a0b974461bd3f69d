package view

import (
	"maps"
	"slices"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// applyAgent keeps tiers and dependencies. Entries keep those with which they were admitted, so that
// a change of an agent rewrites no document.
func (v *View) applyAgent(f ledger.Fact) bool {
	_, known := v.agents.Get(f.Key)
	switch b := f.Body.(type) {
	case *agentv1.Created:
		if known {
			v.agents.Touch(f.Key, f.Sequence)
			return false
		}
		v.agents.Put(f.Key, b.Agent, f.Sequence)
	case *agentv1.Changed:
		if !known {
			return false
		}
		v.agents.Put(f.Key, b.Agent, f.Sequence)
	case *agentv1.Deleted:
		if !known {
			return false
		}
		v.agents.Forget(f.Key)
		v.forgetDurations(f.Key)
	}
	servers := slices.Collect(maps.Keys(v.openOf))
	v.instances.due.Scan(func(_ uint64, key string) bool {
		server, _, _ := strings.Cut(key, ".")
		servers = append(servers, server)
		return true
	})
	for _, server := range servers {
		v.reviewTasks(server) // the order on a server may have changed
	}
	return true
}
