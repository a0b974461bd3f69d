package drift

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// No intent changes the agents of a dying server: garrison remove is refused there with NOT_ALIVE.
func TestARemovalThatFailedOnADyingServerIsCuredByItsDecommission(t *testing.T) {
	s := Situation{Server: &serverv1.Server{Name: "one", Life: serverv1.Life_LIFE_DYING}}
	s.Instances = func(yield func(*instancev1.Instance) bool) {
		yield(&instancev1.Instance{
			Agent: "web", State: instancev1.State_STATE_FAILED, TaskState: taskv1.State_STATE_FAILED,
		})
	}
	rows, _ := Of(s, Scope{Agents: true})
	if len(rows) != 1 || rows[0].Cause != code.ChangeFailed || rows[0].Remedy != person ||
		rows[0].Cure != "garrison server decommission one" {
		t.Errorf("the differences are %v", rows)
	}
}
