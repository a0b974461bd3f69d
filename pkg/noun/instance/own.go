package instance

import (
	"maps"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
)

// recordOwn records a new revision of the instance's own values where a configuration changes them.
func recordOwn(i *instancev1.Instance, f ledger.Fact, next *instancev1.Configuration) {
	if maps.Equal(i.GetConfiguration().GetOwn(), next.GetOwn()) {
		return
	}
	i.OwnChange = &instancev1.OwnChange{Revision: f.Sequence, ChangedBy: f.Actor, ChangedAt: timestamppb.New(f.At)}
}
