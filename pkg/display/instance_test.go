package display

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/noun/block"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestNothingIsGoodOnAServerThatIsOffline(t *testing.T) {
	r := &registryv1.InstanceRow{
		Presence: serverv1.Presence_PRESENCE_OFFLINE, OfflineSince: timestamppb.New(noon.Add(-3 * time.Hour)),
		Instance: &instancev1.Instance{
			State: instancev1.State_STATE_CONVERGED, Health: instancev1.Health_HEALTH_GOOD,
		},
	}
	if have := instanceHealth(r) + ", " + instanceState(listing.View{At: noon}, r); have != "unknown, offline 3h" {
		t.Errorf("have %s", have)
	}
	r.Instance.State, r.Instance.Health = instancev1.State_STATE_FAILED, instancev1.Health_HEALTH_BAD
	if have := instanceHealth(r) + ", " + instanceState(listing.View{At: noon}, r); have != "bad, failed" {
		t.Errorf("what failed there: have %s", have)
	}
}

func TestTheNextOfAnInstanceNamesWhatStopsItBeforeWhatWouldMoveIt(t *testing.T) {
	const (
		task  = "0195d5a0-0000-7000-8000-000000000001"
		leaks = "beacon 1.1.0 for linux/amd64 is blocked by ann: it leaks"
	)
	row := func(state instancev1.State, change func(*registryv1.InstanceRow)) Instance {
		r := &registryv1.InstanceRow{
			ServerName: "web-1", Presence: serverv1.Presence_PRESENCE_ONLINE,
			Instance: &instancev1.Instance{
				Agent: "beacon", State: state, Wanted: &imagev1.Ref{Version: "1.1.0"},
				Observed: &imagev1.Ref{Version: "1.0.0"}, TaskId: task, TaskState: taskv1.State_STATE_UNDONE,
			},
		}
		change(r)
		return r
	}
	blocked := func(r *registryv1.InstanceRow) {
		build := block.OfImage("beacon", r.Instance.Wanted, &serverv1.Platform{Os: "linux", Arch: "amd64"})
		r.Block = &blockv1.Block{Build: build, SetBy: "ann", Reason: "it leaks"}
	}
	failed, converged := instancev1.State_STATE_FAILED, instancev1.State_STATE_CONVERGED
	for want, r := range map[string]Instance{
		leaks + "; to stay at 1.0.0: garrison up beacon@1.0.0 --on web-1": row(failed, blocked),
		leaks: row(failed, func(r *registryv1.InstanceRow) {
			blocked(r)
			r.Instance.Observed = nil // nothing runs to stay at
		}),
		"":                            row(converged, blocked),
		"garrison task show 0195d5a0": row(failed, func(*registryv1.InstanceRow) {}),
		"garrison explain web-1 beacon": row(failed, func(r *registryv1.InstanceRow) {
			r.Instance.TaskState = taskv1.State_STATE_SUCCEEDED // and was damaged since
		}),
		"waits for the server": row(instancev1.State_STATE_PENDING, func(r *registryv1.InstanceRow) {
			r.Presence = serverv1.Presence_PRESENCE_OFFLINE
		}),
		HoldText(&holdv1.Hold{Reason: "a"}): row(failed, func(r *registryv1.InstanceRow) {
			blocked(r)
			r.Hold = &holdv1.Hold{Reason: "a"}
		}),
	} {
		if got := instanceNext(listing.View{At: noon}, r); got != want {
			t.Errorf("have %q, want %q", got, want)
		}
	}
}
