package inventory

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

func TestAChangeOfWhatAServerKeepsForAWayBackIsADifference(t *testing.T) {
	i := after(t, wanted(1, two), succeeded(two), listed(1, two))
	found := &reportv1.Found{Agent: "web", InstanceId: "i", Generation: 1, Image: two, Health: good}
	differences := func() []Difference {
		report := &reportv1.AgentsReport{Agents: []*reportv1.Found{found}}
		return Differences(slices.Values([]*instancev1.Instance{i}), report)
	}
	if have := differences(); len(have) > 0 {
		t.Fatalf("the same differs: %v", have)
	}
	found.Kept = []*instancev1.Kept{{Image: one, Since: &timestamppb.Timestamp{Seconds: 7}, Bytes: 9, ChangesLeft: 1}}
	have := differences()
	if len(have) != 1 || len(have[0].Observed.Kept) != 1 {
		t.Fatalf("differences %v; want one, with the kept version", have)
	}
	i = after(t, wanted(1, two), succeeded(two), have[0].Observed)
	if len(i.Kept) != 1 || len(differences()) > 0 {
		t.Errorf("recorded as %v", i.Kept)
	}
}
