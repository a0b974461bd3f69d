package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// newField is a field of a newer contract, to append to an encoded message.
var newField = protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1)

// A fact that a newer version recorded is named with what is not known of it, and with the version.
func TestAFactOfANewerVersionIsNotReadAsIfItWereWhole(t *testing.T) {
	header := func(contract string) map[string][]string {
		h := map[string][]string{"ce-time": {"2026-01-01T00:00:00Z"}, "ce-id": {"id"}}
		if contract != "" {
			h[ledger.HeaderContract] = []string{contract}
		}
		return h
	}
	planned, err := proto.Marshal(&rolloutv1.Planned{Strategy: &rolloutv1.Strategy{}})
	if err != nil {
		t.Fatal(err)
	}
	nested := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), newField)
	for name, c := range map[string]struct {
		subject  string
		data     []byte
		contract string
		what     string
		writer   string
		inPart   bool // what is known of it is returned
	}{
		"a field":            {"rollout.r1.planned", append(planned, newField...), "", "unknown field 900", "", true},
		"a nested field":     {"rollout.r1.planned", nested, "2 v1.4.0", "strategy: unknown field 900", "v1.4.0", true},
		"a meaning":          {"rollout.r1.planned", planned, "2 v1.4.0", "needs contract 2", "v1.4.0", true},
		"a damaged number":   {"rollout.r1.planned", planned, "x", "needs contract", "", true},
		"a kind":             {"rollout.r1.frozen", nil, "2 v1.4.0", "no fact rollout.frozen", "v1.4.0", false},
		"a noun":             {"site.s1.moved", nil, "", "no fact site.moved", "", false},
		"a contract of ours": {"rollout.r1.planned", planned, "1 v0.9.0", "", "", true},
	} {
		f, err := ledger.Decode(ledger.Prefix+c.subject, header(c.contract), c.data, 7)
		if c.what == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var newer *ledger.Newer
		if !errors.As(err, &newer) || !strings.Contains(newer.What, c.what) || newer.Writer != c.writer {
			t.Errorf("%s: %v, want %q of version %q", name, err, c.what, c.writer)
		}
		if known := f.Body != nil && f.ID == "id" && f.Sequence == 7; known != c.inPart {
			t.Errorf("%s: returned %+v", name, f)
		}
	}
}

func TestAValueOfANewerVersionIsNamed(t *testing.T) {
	data, err := proto.Marshal(&taskv1.Failed{Outcome: &taskv1.Outcome{FailedStep: taskv1.Step(99)}})
	if err != nil {
		t.Fatal(err)
	}
	header := map[string][]string{"ce-time": {"2026-01-01T00:00:00Z"}}
	_, err = ledger.Decode("garrison.ledger.task.t1.failed", header, data, 1)
	if newer := (*ledger.Newer)(nil); !errors.As(err, &newer) || !strings.Contains(newer.What, "unknown value 99") {
		t.Errorf("%v, want the unknown value named", err)
	}
}

// Every noun that has facts is in the table of what decisions rest on, and names only nouns that have facts.
func TestWhatDecisionsRestOnIsKnownForEveryNoun(t *testing.T) {
	nouns := map[ledger.Noun]bool{}
	for _, k := range ledger.Kinds {
		nouns[k.Noun] = true
	}
	for n := range nouns {
		if !n.Known() {
			t.Errorf("it is not known what decisions about the noun %s rest on", n)
		}
		for _, on := range n.RestsOn() {
			if !nouns[on] {
				t.Errorf("%s rests on %s, which has no facts", n, on)
			}
		}
	}
}

// extended describes a message Old of contract 1 that got a field, a value, a nested message and, beside it, a kind.
func extended(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, since uint32,
	) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if of != "" {
			f.TypeName = &of
		}
		if since > 0 {
			f.Options = &descriptorpb.FieldOptions{}
			proto.SetExtension(f.Options, apiv1.E_Since, since)
		}
		return f
	}
	value, kind := &descriptorpb.EnumValueOptions{}, &descriptorpb.MessageOptions{}
	proto.SetExtension(value, apiv1.E_ValueSince, uint32(3))
	proto.SetExtension(kind, apiv1.E_MessageSince, uint32(5))
	text, enum := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_ENUM
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("x.proto"), Package: proto.String("x"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Old"), Field: []*descriptorpb.FieldDescriptorProto{
				field("name", 1, text, "", 0), field("why", 2, text, "", 2), field("how", 3, enum, ".x.How", 0),
				field("old", 4, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".x.Old", 0),
			}},
			{Name: proto.String("New"), Options: kind},
		},
		EnumType: []*descriptorpb.EnumDescriptorProto{{
			Name: proto.String("How"), Value: []*descriptorpb.EnumValueDescriptorProto{
				{Name: proto.String("NONE"), Number: proto.Int32(0)},
				{Name: proto.String("FAST"), Number: proto.Int32(1), Options: value},
			},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// What a fact holds decides which contract its readers must know, not what its kind could hold.
func TestAFactNeedsTheContractOfTheNewestThingThatItHolds(t *testing.T) {
	file := extended(t)
	old := func(set map[string]any) *dynamicpb.Message {
		m := dynamicpb.NewMessage(file.Messages().ByName("Old"))
		for name, v := range set {
			m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(v))
		}
		return m
	}
	for name, c := range map[string]struct {
		body proto.Message
		want uint32
	}{
		"what there always was":  {old(map[string]any{"name": "x"}), 1},
		"a newer field":          {old(map[string]any{"name": "x", "why": "y"}), 2},
		"a newer value":          {old(map[string]any{"how": protoreflect.EnumNumber(1)}), 3},
		"deep inside":            {old(map[string]any{"old": old(map[string]any{"why": "y"})}), 2},
		"a newer kind":           {dynamicpb.NewMessage(file.Messages().ByName("New")), 5},
		"a fact of the contract": {&taskv1.Queued{}, 1},
	} {
		if n := ledger.Contract(c.body); n != c.want {
			t.Errorf("%s needs contract %d, want %d", name, n, c.want)
		}
	}
}

// Nothing is recorded that a reader of the contract in force does not know.
func TestAFactBeyondTheContractInForceIsNotEncoded(t *testing.T) {
	f := ledger.Fact{
		Noun: ledger.Task, Key: "t1", Body: &taskv1.Queued{}, ID: "i", At: time.Unix(1, 0), Source: "s", Actor: "a",
	}
	_, _, err := ledger.Encode(f, 0)
	if err == nil || !strings.Contains(err.Error(), "needs contract 1, and contract 0") {
		t.Errorf("encoded beyond the contract in force (%v)", err)
	}
}

// described adds the names of everything that a message may hold to a set, with the contract that added each.
func described(d protoreflect.MessageDescriptor, into map[string]uint32) {
	if _, there := into[string(d.FullName())]; there {
		return
	}
	option := func(d protoreflect.Descriptor, x protoreflect.ExtensionType) uint32 {
		n, _ := proto.GetExtension(d.Options(), x).(uint32)
		return max(n, 1)
	}
	into[string(d.FullName())] = option(d, apiv1.E_MessageSince)
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		into[string(fd.FullName())] = option(fd, apiv1.E_Since)
		if fd.Message() != nil {
			described(fd.Message(), into)
		}
		for j := 0; fd.Enum() != nil && j < fd.Enum().Values().Len(); j++ {
			v := fd.Enum().Values().Get(j)
			into[string(v.FullName())] = option(v, apiv1.E_ValueSince)
		}
	}
}

// unnumbered returns what is in a contract and not in the released one, and does not have the number of the program.
func unnumbered(released, now map[string]uint32, number uint32) (wrong []string) {
	highest := uint32(1)
	for _, n := range released {
		highest = max(highest, n)
	}
	for name, since := range now {
		if _, there := released[name]; !there && (since != number || number <= highest) {
			wrong = append(wrong, name)
		}
	}
	slices.Sort(wrong)
	return wrong
}

// What facts got since the last release has the number of the contract that added it: the emission of anything else
// could not be held back from programs that do not know it.
func TestWhatFactsGotSinceTheReleaseHasANumber(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "proto", "baseline.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	released, now := map[string]uint32{}, map[string]uint32{}
	for _, k := range ledger.Kinds {
		d := k.Body.ProtoReflect().Descriptor()
		described(d, now)
		if was, err := files.FindDescriptorByName(d.FullName()); err == nil {
			described(was.(protoreflect.MessageDescriptor), released)
		}
	}
	for _, name := range unnumbered(released, now, version.Contract) {
		t.Errorf("%s is not in the released contract: raise version.Contract and give it the option since; "+
			"before the first release, run make baseline", name)
	}

	// The rule itself: something that is new, with and without its number.
	one := "garrison.task.v1.Queued.agent"
	delete(released, one)
	if wrong := unnumbered(released, now, version.Contract); !slices.Equal(wrong, []string{one}) {
		t.Errorf("a new field without a number: %v, want %s", wrong, one)
	}
	now[one] = version.Contract + 1
	if wrong := unnumbered(released, now, version.Contract+1); len(wrong) != 0 {
		t.Errorf("a new field with a number: %v", wrong)
	}
	released["x"] = version.Contract + 1
	if wrong := unnumbered(released, now, version.Contract+1); len(wrong) != 1 {
		t.Errorf("a new field with the number of a release: %v", wrong)
	}
}
