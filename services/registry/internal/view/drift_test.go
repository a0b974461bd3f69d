package view

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// What an executor repairs within seconds was counted as what needs a person.
func TestAnInstanceThatItsExecutorRepairsIsCountedApart(t *testing.T) {
	const heal, report = environmentv1.DriftPolicy_DRIFT_POLICY_HEAL, environmentv1.DriftPolicy_DRIFT_POLICY_REPORT
	const online, offline = serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_OFFLINE
	one := &imagev1.Ref{Id: "one"}
	for _, c := range []struct {
		policy   environmentv1.DriftPolicy
		presence serverv1.Presence
		code     string
		want     string
	}{
		{heal, online, code.ProcessStopped, "heals"},
		{report, online, code.ProcessStopped, ""},
		{heal, offline, code.ProcessStopped, ""},
		{heal, online, code.RepairDidNotHold, ""},
	} {
		v := New()
		v.Apply(ledger.Fact{Noun: ledger.Environment, Key: "prod", Sequence: 1, Body: &environmentv1.Created{
			Environment: &environmentv1.Environment{Name: "prod", Drift: c.policy},
		}})
		i := &instancev1.Instance{
			State: instancev1.State_STATE_DRIFTED, Wanted: one, Observed: one, ObservedCode: c.code,
			Health: instancev1.Health_HEALTH_BAD,
		}
		s := &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE, Environment: "prod", Presence: c.presence}
		if have := v.instanceValue(i, s, "drift"); have != c.want {
			t.Errorf("%v: %q", c, have)
		}
	}
}
