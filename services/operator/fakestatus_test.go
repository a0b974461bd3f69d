package operator

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// countServers counts 25 servers, none of them in trouble, at two sites.
func countServers(q *registryv1.CountServersRequest) (*registryv1.CountServersResponse, error) {
	if slices.Equal(q.GetBy(), []string{"cell"}) {
		return &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 25, Groups: []*registryv1.CountGroup{
			{Values: []string{"main"}, Count: 20}, {Values: []string{"north"}, Count: 5},
		}}}, nil
	}
	if len(q.GetBy()) != 4 {
		total, f := uint64(25), q.GetFilter()
		if f.GetTrouble() != "" || f.GetLeaked() || f.GetFound() || f.GetWaitsForDefault() || f.GetCondition() != 0 {
			total = 0
		}
		return &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: total}}, nil
	}
	return &registryv1.CountServersResponse{Counts: &registryv1.Counts{Total: 25, Groups: []*registryv1.CountGroup{
		{Values: []string{"alive", "online", "enrolled", ""}, Count: 22},
		{Values: []string{"alive", "offline", "enrolled", ""}, Count: 2},
		{Values: []string{"alive", "online", "quarantined", ""}, Count: 1},
	}}}, nil
}

// stateGroups are instances by state, health and presence.
var stateGroups = []*registryv1.CountGroup{
	{Values: []string{"converged", "good", "online"}, Count: 44},
	{Values: []string{"converged", "good", "offline"}, Count: 4},
	{Values: []string{"failed", "good", "online"}, Count: 1},
}

func (f *fakes) writers(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListWriters", func(*registryv1.ListWritersRequest) (*registryv1.ListWritersResponse, error) {
		return &registryv1.ListWritersResponse{}, nil
	})
	handle(t, f, s, "ListUnknownServers",
		func(*registryv1.ListUnknownServersRequest) (*registryv1.ListUnknownServersResponse, error) {
			return &registryv1.ListUnknownServersResponse{}, nil
		})
}

func (f *fakes) countTasks(t testing.TB, s *bus.Service) {
	handle(t, f, s, "CountTasks", func(q *dispatcherv1.CountTasksRequest) (*dispatcherv1.CountTasksResponse, error) {
		if q.GetFilter().GetSlow() {
			return &dispatcherv1.CountTasksResponse{}, nil
		}
		return &dispatcherv1.CountTasksResponse{Total: 5, Groups: []*dispatcherv1.TaskGroup{
			{Values: []string{"queued"}, Count: 3}, {Values: []string{"running"}, Count: 2},
		}}, nil
	})
}
