package intent_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestWhatDriftedIsHeldButForItsRepairAndItsRemoval(t *testing.T) {
	to := func(version string) *intentv1.Intent {
		ask := upgradeAll()
		ask.GetUpgrade().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
		return ask
	}
	remove := &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "web", On: everywhere}}}
	const hold, report = environmentv1.DriftPolicy_DRIFT_POLICY_HOLD, environmentv1.DriftPolicy_DRIFT_POLICY_REPORT
	for name, c := range map[string]struct {
		policy environmentv1.DriftPolicy
		cause  string
		verb   string
		ask    *intentv1.Intent
		want   string
	}{
		"another version":               {hold, code.Damaged, "upgrade", to("2.0.0"), code.DriftHeld},
		"its repair":                    {hold, code.Damaged, "upgrade", to("1.0.0"), ""},
		"its removal":                   {hold, code.Damaged, "remove", remove, ""},
		"another version under report":  {report, code.Damaged, "upgrade", to("2.0.0"), ""},
		"an agent that fails by itself": {hold, code.CrashLoop, "upgrade", to("2.0.0"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 1)
			w.image("two", "2.0.0")
			i := w.on(0)
			prod := &environmentv1.Environment{Drift: c.policy}
			w.apply(ledger.Environment, "prod", &environmentv1.Created{Environment: prod})
			w.apply(ledger.Server, i.ServerId, &serverv1.Changed{Environment: "prod"})
			w.apply(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Observed{
				InstanceId: i.Id, Generation: i.Generation, Image: i.Wanted, Code: c.cause,
				Health: instancev1.Health_HEALTH_BAD, ConfigurationDigest: i.Configuration.GetDigest(),
			})
			if d := w.decide(c.verb, c.ask); d.Refusal.GetCode() != c.want || c.want == "" && d.Changed != 1 {
				t.Errorf("%v, changed %d; want %q", d.Refusal, d.Changed, c.want)
			}
		})
	}
}

func TestAHoldWhoseTimePassedHoldsNothing(t *testing.T) {
	for until, want := range map[int64]string{0: code.Held, 98: "", 99: "", 100: code.Held} { // it is 99
		w := running(t, 1)
		w.image("two", "2.0.0")
		h := &holdv1.Hold{Agent: "web", On: everywhere}
		if until != 0 {
			h.Until = timestamppb.New(time.Unix(until, 0))
		}
		w.apply(ledger.Hold, "h", h)
		d := w.decide("upgrade", upgradeAll())
		if d.Refusal.GetCode() != want || (d.Changed == 1) != (want == "") {
			t.Errorf("until %d: %v, changed %d; want %q", until, d.Refusal, d.Changed, want)
		}
	}
}
