package dispatcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

func TestTasksAreCountedByTheValuesOfFields(t *testing.T) {
	t.Parallel()
	w, _, all := queuedWorld(t)
	group := func(count uint64, values ...string) *dispatcherv1.TaskGroup {
		return &dispatcherv1.TaskGroup{Values: values, Count: count}
	}
	assigned := &dispatcherv1.ListTasksRequest{States: []taskv1.State{taskv1.State_STATE_ASSIGNED}}
	for name, c := range map[string]struct{ q, want any }{
		"all together": {
			&dispatcherv1.CountTasksRequest{}, &dispatcherv1.CountTasksResponse{Total: 10},
		},
		"by state": {
			&dispatcherv1.CountTasksRequest{By: []string{"state"}},
			&dispatcherv1.CountTasksResponse{Total: 10, Groups: []*dispatcherv1.TaskGroup{
				group(9, "queued"), group(1, "assigned"),
			}},
		},
		"by state, of one state": {
			&dispatcherv1.CountTasksRequest{By: []string{"state"}, Filter: assigned},
			&dispatcherv1.CountTasksResponse{Total: 1, Groups: []*dispatcherv1.TaskGroup{group(1, "assigned")}},
		},
		"by state, of one agent": {
			&dispatcherv1.CountTasksRequest{
				By: []string{"agent", "verb"}, Filter: &dispatcherv1.ListTasksRequest{Agent: "b"},
			},
			&dispatcherv1.CountTasksResponse{Total: 5, Groups: []*dispatcherv1.TaskGroup{group(5, "b", "install")}},
		},
		"by state, on two servers": {
			&dispatcherv1.CountTasksRequest{
				By: []string{"verb"}, Filter: &dispatcherv1.ListTasksRequest{ServerIds: all[:2]},
			},
			&dispatcherv1.CountTasksResponse{Total: 4, Groups: []*dispatcherv1.TaskGroup{group(4, "install")}},
		},
		"the largest group": {
			&dispatcherv1.CountTasksRequest{By: []string{"agent"}, Top: 1},
			&dispatcherv1.CountTasksResponse{
				Total: 10, Groups: []*dispatcherv1.TaskGroup{group(5, "a")}, OtherGroups: 1, Others: 5,
			},
		},
	} {
		have, err := call[*dispatcherv1.CountTasksResponse](w, "CountTasks", c.q.(*dispatcherv1.CountTasksRequest))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, any(have), protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +have):\n%s", name, d)
		}
	}
	for _, c := range []struct {
		q    *dispatcherv1.CountTasksRequest
		want string
	}{
		{&dispatcherv1.CountTasksRequest{By: []string{"colour"}}, code.Invalid},
		{&dispatcherv1.CountTasksRequest{By: []string{"verb", "verb"}}, code.Invalid},
		{&dispatcherv1.CountTasksRequest{Top: 1001}, code.Invalid},
		{&dispatcherv1.CountTasksRequest{
			Filter: &dispatcherv1.ListTasksRequest{Page: &apiv1.Page{Limit: 1}},
		}, code.Invalid},
		{&dispatcherv1.CountTasksRequest{
			Filter: &dispatcherv1.ListTasksRequest{ServerIds: servers(maxNamed + 1)},
		}, code.Invalid},
	} {
		_, err := call[*dispatcherv1.CountTasksResponse](w, "CountTasks", c.q)
		if have := fault.RefusalOf(err).GetCode(); have != c.want {
			t.Errorf("%.200v: have %v, want %s", c.q, err, c.want)
		}
	}
}
