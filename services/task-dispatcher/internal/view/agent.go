package view

import (
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
)

func ranksOf(agents *fold.Table[*agentv1.Agent]) admission.Ranks {
	return admission.NewRanks(func(yield func(string, admission.Agent) bool) {
		for name, a := range agents.All() {
			if !yield(name, admission.Agent{Tier: a.GetTier(), Dependencies: a.GetDependencies()}) {
				return
			}
		}
	})
}

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
		v.Durations.forget(f.Key)
	}
	v.Queue.ranks = ranksOf(v.agents)
	servers := map[string]bool{}
	for server := range v.open {
		servers[server] = true
	}
	v.instances.due.Scan(func(_ uint64, key string) bool {
		server, _, _ := strings.Cut(key, ".")
		servers[server] = true
		return true
	})
	for server := range servers {
		v.Queue.review(server) // the order on a server may have changed
	}
	return true
}
