package strict_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/garrison-fleet/garrison/pkg/strict"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// newer returns the message as a newer program would send it: with one more field.
func newer[M proto.Message](t testing.TB, m M, field protowire.Number) M {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	raw = protowire.AppendTag(raw, field, protowire.VarintType)
	raw = protowire.AppendVarint(raw, 1)
	if err := proto.Unmarshal(raw, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWhatThisProgramKnowsIsAccepted(t *testing.T) {
	document := &desiredv1.Document{ServerId: "s", Labels: map[string]string{"a": "b"}, Entries: []*desiredv1.Entry{{
		Agent: "beacon", Verb: taskv1.Verb_VERB_CONFIGURE, Dependencies: []string{"x"},
		Image: &imagev1.Manifest{Run: &imagev1.Run{Takeover: imagev1.Takeover_TAKEOVER_OVERLAP, Ready: &imagev1.Ready{
			Probe: &imagev1.Ready_Exec{Exec: &imagev1.Exec{Command: "check"}},
		}}},
	}}}
	for _, m := range []proto.Message{nil, (*desiredv1.Document)(nil), &desiredv1.Document{}, document} {
		if err := strict.Check(m); err != nil {
			t.Errorf("%v: %v, want nil", m, err)
		}
		if m != nil && !knows(t, m) {
			t.Errorf("of the encoding of %v something is not known", m)
		}
	}
}

// knows reports whether all of a message is known by its encoding.
func knows(t *testing.T, m proto.Message) bool {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return strict.Knows(data, m.ProtoReflect().Descriptor())
}

func TestWhatThisProgramDoesNotKnowIsNamedByItsPath(t *testing.T) {
	for name, c := range map[string]struct {
		m    proto.Message
		want string
	}{
		"a field at the top": {newer(t, &intentv1.Selector{All: true}, 19), "unknown field 19"},
		"a field in a message": {&desiredv1.Entry{Image: &imagev1.Manifest{Run: newer(t, &imagev1.Run{}, 77)}},
			"image.run: unknown field 77"},
		"a field in a list": {&desiredv1.Document{
			Entries: []*desiredv1.Entry{{}, newer(t, &desiredv1.Entry{Agent: "a"}, 50)}},
			"entries[1]: unknown field 50"},
		"a value of a map": {&structpb.Struct{Fields: map[string]*structpb.Value{
			"b": newer(t, structpb.NewBoolValue(true), 9),
		}}, `fields["b"]: unknown field 9`},
		"a member of a oneof": {
			&imagev1.Run{Ready: newer(t, &imagev1.Ready{TimeoutMs: 5}, 99)}, "ready: unknown field 99",
		},
		"two fields, each named once": {newer(t, newer(t, newer(t, &intentv1.Selector{}, 30), 20), 30),
			"unknown field 20; unknown field 30"},
		"an enum value":         {&desiredv1.Entry{Verb: 9}, "verb: unknown value 9 of garrison.task.v1.Verb"},
		"a negative enum value": {&imagev1.Run{Reload: -1}, "reload: unknown value -1 of garrison.image.v1.Reload"},
		"an enum value in a list": {&taskv1.Outcome{Steps: []*taskv1.StepTime{{Step: 1}, {Step: 1000}}},
			"steps[1].step: unknown value 1000 of garrison.task.v1.Step"},
	} {
		err := strict.Check(c.m)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if knows(t, c.m) {
			t.Errorf("%s: all of its encoding is known", name)
		}
	}
}

func TestFindingsBeyondTheBoundAreCounted(t *testing.T) {
	steps := make([]*taskv1.StepTime, 100)
	for i := range steps {
		steps[i] = &taskv1.StepTime{Step: 1000}
	}
	err := strict.Check(&taskv1.Outcome{Steps: steps})
	if err == nil || strings.Count(err.Error(), "unknown value") != strict.MaxNamed ||
		!strings.HasSuffix(err.Error(), "; and 92 more") {
		t.Errorf("%v, want %d findings and the count of the rest", err, strict.MaxNamed)
	}
}

// FuzzUnknownFieldsAreFoundExactlyWhenThereAreSome compares Check with what the decoder
// itself drops when it discards unknown fields.
func FuzzUnknownFieldsAreFoundExactlyWhenThereAreSome(f *testing.F) {
	run := newer(f, &imagev1.Run{Command: "c", Reload: 7}, 77)
	seed, err := proto.Marshal(&desiredv1.Document{Entries: []*desiredv1.Entry{{Image: &imagev1.Manifest{Run: run}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all, known desiredv1.Document
		if proto.Unmarshal(raw, &all) != nil {
			return
		}
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &known); err != nil {
			t.Fatal(err)
		}
		fields := proto.Size(&all) != proto.Size(&known)
		err := strict.Check(&all)
		if err != nil && strict.Knows(raw, all.ProtoReflect().Descriptor()) {
			t.Fatalf("%x is known, and %v", raw, err)
		}
		if fields && err == nil {
			t.Fatalf("%x has unknown fields, and none was found", raw)
		}
		if !fields && err != nil && strings.Contains(err.Error(), "unknown field") {
			t.Fatalf("%x has no unknown field: %v", raw, err)
		}
		if err := strict.Check(&known); err != nil && strings.Contains(err.Error(), "unknown field") {
			t.Fatalf("a message without unknown fields has some: %v", err)
		}
	})
}

func Example() {
	entry := &desiredv1.Entry{Agent: "beacon", Verb: 9} // a newer dispatcher wrote it
	fmt.Println(strict.Check(entry))
	// Output: verb: unknown value 9 of garrison.task.v1.Verb
}
