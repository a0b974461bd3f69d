package view

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

func TestTheDriftPolicyOfItsEnvironmentIsInEachDocument(t *testing.T) {
	const unset, report = environmentv1.DriftPolicy_DRIFT_POLICY_UNSPECIFIED,
		environmentv1.DriftPolicy_DRIFT_POLICY_REPORT
	v, sequence := New(nil), uint64(0)
	fold := func(noun ledger.Noun, key string, body proto.Message) *desiredv1.Document {
		sequence++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, Sequence: sequence, At: time.Unix(1000, 0)})
		d, _ := v.Rows.Document("s")
		return d
	}
	env := func(p environmentv1.DriftPolicy) *environmentv1.Environment {
		return &environmentv1.Environment{Drift: p}
	}
	fold(ledger.Environment, "prod", &environmentv1.Created{Environment: env(unset)})
	fold(ledger.Environment, "test", &environmentv1.Created{Environment: env(report)})
	fold(ledger.Server, "s", &serverv1.Invited{Environment: "prod"})
	fold(ledger.Server, "s", &serverv1.Enrolled{})
	for n, c := range []struct {
		key        string
		body       proto.Message
		policy     environmentv1.DriftPolicy
		braked     bool
		newVersion bool
	}{
		{"prod", &environmentv1.Changed{Environment: env(unset)}, unset, false, false},
		{"test", &environmentv1.DriftBraked{}, unset, false, false},
		{"prod", &environmentv1.DriftBraked{}, unset, true, true},
		{"prod", &environmentv1.Changed{Environment: env(report)}, report, true, true},
		{"prod", &environmentv1.DriftReleased{}, report, false, true},
	} {
		d := fold(ledger.Environment, c.key, c.body)
		if d.Drift != c.policy || d.DriftBraked != c.braked || (d.Generation == sequence) != c.newVersion {
			t.Errorf("step %d: %v at fact %d; want %s, braked %v, changed %v", n, d, sequence, c.policy, c.braked,
				c.newVersion)
		}
	}
	if d := fold(ledger.Server, "s", &serverv1.Changed{Environment: ""}); d.Drift != unset || d.DriftBraked {
		t.Errorf("%v; want no policy without an environment", d)
	}
}
