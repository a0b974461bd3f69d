package registry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

const via = "ssh root@gone"

// cleanUp records how an attempt ended, some seconds after a fixed time.
func cleanUp(server string, seconds int64, refusal *apiv1.Refusal) *registryv1.RecordCleanUpRequest {
	return &registryv1.RecordCleanUpRequest{Server: server, Via: via, Outcome: &reportv1.CleanUpOutcome{
		ServerId: server, At: &timestamppb.Timestamp{Seconds: 1_700_000_000 + seconds}, Removed: 7, Left: 2,
		Refusal: refusal,
	}}
}

func TestACleanUpIsRecordedWithItsActor(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, _ := s.owned("gone", serverv1.Ownership_OWNERSHIP_MANUAL)
	s.accepted(topology.VerbDecommission, decommission("gone", true))

	unreachable := &apiv1.Refusal{Code: "SSH_FAILED", Message: "no\nroute " + strings.Repeat("x", 2000)}
	x := must[*registryv1.RecordCleanUpResponse](s, "RecordCleanUp", cleanUp(id, 1, unreachable)).Server
	if c := x.CleanUp; c.GetCode() != "SSH_FAILED" || c.GetVia() != via || c.GetActor() == "" ||
		!strings.HasPrefix(c.GetReason(), "no route x") ||
		len(c.GetReason()) > request.MaxReason {
		t.Errorf("after a failure: %v", c)
	}
	if got := s.leaked(); x.UninstalledAt != nil || len(got) != 1 {
		t.Errorf("after a failure %v are leaked, and %v", got, x.UninstalledAt)
	}

	for range 2 { // a lost answer is requested again
		x = must[*registryv1.RecordCleanUpResponse](s, "RecordCleanUp", cleanUp(id, 2, nil)).Server
	}
	if c := x.CleanUp; c.GetCode() != "" || x.UninstalledAt == nil || x.LeftPaths != 2 || len(s.leaked()) != 0 {
		t.Errorf("clean, with the duties %v; leaked %v", x, s.leaked())
	}
	facts := s.facts(ledger.Server, id)
	if got := names(facts); strings.Join(got[len(got)-3:], " ") != "dead clean-up-failed uninstalled" {
		t.Errorf("facts %v", got)
	}
	last := facts[len(facts)-1]
	if b, ok := last.Body.(*serverv1.Uninstalled); !ok || b.Removed != 7 || b.Left != 2 || b.Via != via ||
		last.Actor != x.CleanUp.Actor ||
		last.Actor == ledger.Registry {
		t.Errorf("the fact of %s holds %v", last.Actor, last.Body)
	}
}
