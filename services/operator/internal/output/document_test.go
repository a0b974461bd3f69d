package output

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// A script reads words, numbers and hex where protobuf has names, texts and base64.
func TestTheJSONOfAMessageIsInThePlainestForm(t *testing.T) {
	i := &instancev1.Instance{
		State: instancev1.State_STATE_CONVERGED, Health: 99,
		Wanted: &imagev1.Ref{Version: "1.0.0<", Digest: []byte{0xab, 1}}, Generation: 7, ObservedGeneration: 1 << 60,
		Since: timestamppb.New(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)),
	}
	want := `{"generation":7,"wanted":{"version":"1.0.0<","digest":"sha256:ab01"},"health":"unknown-99",` +
		`"state":"converged","since":"2026-01-31T12:00:00Z","observedGeneration":"1152921504606846976"}`
	if have, err := Encode(i); err != nil || string(have) != want {
		t.Errorf("%s, %v; want %s", have, err, want)
	}
}

func TestTheJSONOfAMessageHasHasNestedValuesAndNamesOfStates(t *testing.T) {
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
	want = `{"servers":3,"counts":{"left-out":1,"succeeded":2}}`
	if have, err := Encode(w); err != nil || string(have) != want {
		t.Errorf("%s, %v; want %s", have, err, want)
	}
}
