package output

import (
	"testing"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestTheJSONOfAMessageHasNestedValuesAndNamesOfStates(t *testing.T) {
	a := &agentv1.Agent{Name: "a", Metadata: map[string]string{
		"log": `garrison:json:1:{"keep":"5\""}`, "text": `"counts":{"1":2} garrison:json:1:{}`,
	}}
	want := `{"name":"a","metadata":{"log":{"keep":"5\""},"text":"\"counts\":{\"1\":2} garrison:json:1:{}"}}`
	if have, err := Encode(a); err != nil || string(have) != want {
		t.Errorf("%s, %v; want %s", have, err, want)
	}
	w := &rolloutv1.Wave{Servers: 3, Counts: map[uint32]uint32{
		uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): 2, uint32(rolloutv1.TargetState_TARGET_STATE_LEFT_OUT): 1,
	}}
	want = `{"servers":3,"counts":{"succeeded":2,"left-out":1}}`
	if have, err := Encode(w); err != nil || string(have) != want {
		t.Errorf("%s, %v; want %s", have, err, want)
	}
}
