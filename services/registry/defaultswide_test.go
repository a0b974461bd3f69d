package registry

import (
	"slices"
	"testing"
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// Many servers at once get their agents by few intents.
func TestOneIntentServesManyServers(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.fleet(1200)
	must[*registryv1.SetDefaultResponse](s, "SetDefault", setDefault("db", reachNew))
	var drafts []ledger.Draft
	var ids []string
	s.r.follower.Read(func() {
		for x := range s.r.records.View.AllServers() {
			ids = append(ids, x.Id)
			drafts = append(drafts, fact(ledger.Server, x.Id, &serverv1.Changed{Environment: "prod"}))
		}
	})
	for part := range slices.Chunk(drafts, 400) {
		s.append(part...)
	}
	began := time.Now()
	s.untilInstalled("db", ids...)
	intents := map[string]bool{}
	s.r.follower.Read(func() {
		for i := range s.r.records.View.InstancesOfAgent("db") {
			intents[i.IntentId] = true
		}
	})
	t.Logf("%d servers by %d intents, the last %v after they joined", len(ids), len(intents), time.Since(began))
	if len(intents) > 60 {
		t.Errorf("%d intents for %d servers", len(intents), len(ids))
	}
}
