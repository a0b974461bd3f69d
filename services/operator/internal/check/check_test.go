package check

import (
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
)

func TestAServerThatMayStillJoinIsNoFault(t *testing.T) {
	r := &registryv1.CheckFleetResponse{Causes: []*registryv1.CauseCount{
		{Cause: code.ServerInvited, Count: 5}, {Cause: code.Exited, Count: 1},
	}}
	if total(r) != 6 || awaited(r) != 5 {
		t.Errorf("%d differences, %d of them servers to come; want 6 and 5", total(r), awaited(r))
	}
}
